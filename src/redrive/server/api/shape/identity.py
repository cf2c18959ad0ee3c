"""Organizations, members, keys and sessions, as requests and answers have them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from redrive.policy.access import Permission

RoleWord = Literal["VIEWER", "STAFF", "ADMIN", "OWNER"]
AskedRole = Literal["VIEWER", "STAFF", "ADMIN", "OWNER", "SUPER_ADMIN", "ORG_ADMIN"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Password = Annotated[str, Field(min_length=1, max_length=1024)]
YEAR = 366 * 86_400


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Credentials(Asked):
    name: Name
    password: Password


class Token(Asked):
    token: Annotated[str, Field(min_length=1, max_length=200)]


class OrganizationName(Asked):
    name: Annotated[str, Field(min_length=1, max_length=200)]


class NewOrganization(Asked):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    title: Annotated[str, Field(max_length=200)] = ""


class NewPassword(Asked):
    """`current` is needed where there is one already."""

    password: Annotated[str, Field(min_length=12, max_length=1024)]
    current: Annotated[str | None, Field(max_length=1024)] = None


class NewMember(Asked):
    name: Name
    role: AskedRole


class MemberChange(Asked):
    role: AskedRole | None = None
    active: bool | None = None


class LinkRequest(Asked):
    minutes: Annotated[float, Field(ge=1, le=10_080)] = 60.0


class NewKeyRequest(Asked):
    """`scopes` limits the key to some of what its role may do."""

    name: Name
    role: AskedRole
    scopes: Annotated[list[Permission] | None, Field(min_length=1, max_length=8)] = None
    expires_in_seconds: Annotated[float | None, Field(ge=60, le=10 * YEAR)] = None


class Rotation(Asked):
    grace_seconds: Annotated[float, Field(ge=0, le=30 * 86_400)] = 0.0


class OrganizationShape(BaseModel):
    name: str
    title: str
    created_at: str
    created_by: str


class OrganizationPage(BaseModel):
    items: list[OrganizationShape]
    next_cursor: str | None


class MemberShape(BaseModel):
    id: str
    name: str
    role: RoleWord
    active: bool
    disabled: bool
    version: int
    created_at: str
    created_by: str
    updated_at: str


class MemberPage(BaseModel):
    items: list[MemberShape]
    next_cursor: str | None


class LinkShape(BaseModel):
    """`url` signs this member in once."""

    name: str
    url: str
    expires_at: str


class KeyShape(BaseModel):
    id: str
    prefix: str
    name: str
    role: RoleWord
    scopes: list[str] | None
    created_at: str
    created_by: str
    expires_at: str | None
    last_used_at: str | None
    rotated_at: str | None
    previous_expires_at: str | None
    revoked_at: str | None
    revoked_by: str | None


class KeyPage(BaseModel):
    items: list[KeyShape]
    next_cursor: str | None


class MadeKey(BaseModel):
    """`text` is the key itself. It is shown this once, and kept nowhere."""

    key: KeyShape
    text: str


class StandingShape(BaseModel):
    org: str
    title: str
    role: RoleWord


class SessionShape(BaseModel):
    """Who is signed in. `csrf_token` is for browsers, which send it with every change."""

    kind: Literal["key", "session"]
    org: str
    name: str
    role: RoleWord
    permissions: list[str]
    csrf_token: str | None
    organizations: list[StandingShape]


class SessionLineShape(BaseModel):
    id: str
    org: str
    kind: str
    created_at: str
    seen_at: str
    expires_at: str


class SessionList(BaseModel):
    items: list[SessionLineShape]
