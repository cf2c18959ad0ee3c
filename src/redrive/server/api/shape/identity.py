"""Organizations, members, keys and sessions, as requests and answers have them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from redrive.engine.task import MAX_NAME_LENGTH
from redrive.identity.keys import MAX_GRACE_SECONDS, MAX_LIFETIME_SECONDS
from redrive.policy.access import Permission
from redrive.policy.user_text import MAX_WORD_LENGTH
from redrive.server.api.shape.base import Asked, Moment, Shown

RoleWord = Literal["VIEWER", "STAFF", "ADMIN", "OWNER"]
AskedRole = Literal["VIEWER", "STAFF", "ADMIN", "OWNER", "SUPER_ADMIN", "ORG_ADMIN"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Password = Annotated[str, Field(min_length=1, max_length=1024)]
OrgName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Scope = Annotated[Permission, Field(strict=False)]


class Credentials(Asked):
    name: Name
    password: Password


class Token(Asked):
    token: Annotated[str, Field(min_length=1, max_length=200)]


class OrganizationName(Asked):
    name: OrgName


class NewOrganization(Asked):
    name: OrgName
    title: Annotated[str, Field(max_length=MAX_WORD_LENGTH)] = ""


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

    name: Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
    role: AskedRole
    scopes: Annotated[list[Scope] | None, Field(min_length=1, max_length=8)] = None
    expires_in_seconds: Annotated[float | None, Field(ge=60, le=MAX_LIFETIME_SECONDS)] = None


class Rotation(Asked):
    """`expires_in_seconds` is when the key ends from now on; without it, when it ended before."""

    grace_seconds: Annotated[float, Field(ge=0, le=MAX_GRACE_SECONDS)] = 0.0
    expires_in_seconds: Annotated[float | None, Field(ge=60, le=MAX_LIFETIME_SECONDS)] = None


class OrganizationShape(Shown):
    name: str
    title: str
    created_at: Moment
    created_by: str


class OrganizationPage(Shown):
    items: list[OrganizationShape]
    next_cursor: str | None


class MemberShape(Shown):
    id: str
    name: str
    role: RoleWord
    active: bool
    disabled: bool
    version: int
    created_at: Moment
    created_by: str
    updated_at: Moment


class MemberPage(Shown):
    items: list[MemberShape]
    next_cursor: str | None


class LinkShape(Shown):
    """`url` signs this member in once."""

    name: str
    url: str
    expires_at: Moment


class KeyShape(Shown):
    id: str
    prefix: str
    name: str
    role: RoleWord
    scopes: list[Permission] | None
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    last_used_at: Moment | None
    rotated_at: Moment | None
    previous_expires_at: Moment | None
    revoked_at: Moment | None
    revoked_by: str | None


class KeyPage(Shown):
    items: list[KeyShape]
    next_cursor: str | None


class MadeKey(Shown):
    """`text` is the key itself. It is shown this once, and kept nowhere."""

    key: KeyShape
    text: str


class StandingShape(Shown):
    org: str
    title: str
    role: RoleWord


class SessionShape(Shown):
    """Who is signed in. `csrf_token` is for browsers, which send it with every change."""

    kind: Literal["key", "session"]
    org: str
    name: str
    role: RoleWord
    permissions: list[Permission]
    csrf_token: str | None
    organizations: list[StandingShape]


class SessionLineShape(Shown):
    id: str
    org: str
    kind: str
    created_at: Moment
    seen_at: Moment
    expires_at: Moment


class SessionList(Shown):
    items: list[SessionLineShape]
    next_cursor: str | None
