"""Identity: organizations, the people who sign in, their memberships, and the keys of programs.

The classes that hold a secret hide it in their `repr`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.field import Instant
from redrive.model.role import Role
from redrive.model.row import Row

HOME = "default"
"""The organization that owns the installation."""

OPERATOR = "operator"
"""The user that the embedded server signs in by a link."""

KEY_PREFIX = "rdk_"


class SignInKind(StrEnum):
    """How a user has signed in."""

    PASSWORD = "password"  # noqa: S105 — the name of it
    LINK = "link"
    OIDC = "oidc"
    FORWARD = "forward"


class Organization(Row, frozen=True):
    name: str
    title: str
    created_at: Instant
    created_by: str


class Identity(NamedTuple):
    """A person as an OpenID provider knows them."""

    issuer: str
    subject: str


class User(Row, frozen=True):
    """A person.

    org              the organization that answers for the account: its owners may hand out links for it
    password         the hash of it; None where there is none
    password_number  rises with every password, not with every hash of the same
    """

    id: str
    name: str
    org: str
    password: str | None
    password_number: int
    issuer: str | None
    subject: str | None
    created_at: Instant
    created_by: str
    disabled_at: Instant | None

    def __repr__(self) -> str:
        return f"User({self.name!r}, id={self.id!r})"


class Member(Row, frozen=True):
    """A user in an organization. `version` rises with every change; `disabled` is the user everywhere."""

    org: str
    user_id: str
    name: str
    role: Role
    active: bool
    version: int
    created_at: Instant
    created_by: str
    updated_at: Instant
    disabled: bool

    @property
    def counts(self) -> bool:
        """Tell whether they may act here."""
        return self.active and not self.disabled

    @property
    def owns(self) -> bool:
        """Tell whether they are one of the owners of whom the organization must keep one."""
        return self.counts and self.role is Role.OWNER


class MemberPage(NamedTuple):
    """By name; `next_cursor` is None on the last page."""

    members: tuple[Member, ...]
    next_cursor: str | None


class OrganizationPage(NamedTuple):
    """By name; `next_cursor` is None on the last page."""

    organizations: tuple[Organization, ...]
    next_cursor: str | None


class ApiKey(Row, frozen=True):
    """A key as it can be shown.

    scopes               the permissions that it is limited to; None: all of its role
    previous_expires_at  until then, the secret before the last rotation is valid too
    """

    id: str
    org: str
    name: str
    role: Role
    scopes: tuple[str, ...] | None
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    rotated_at: Instant | None
    previous_expires_at: Instant | None
    revoked_at: Instant | None
    revoked_by: str | None

    def has_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def prefix(self) -> str:
        """The beginning of the key's text: enough to recognize it, not enough to use it."""
        return f"{KEY_PREFIX}{self.id}"


class KeyPage(NamedTuple):
    """The newest first; `next_cursor` is None on the last page."""

    keys: tuple[ApiKey, ...]
    next_cursor: str | None


class NewKey(NamedTuple):
    """A key and its text, which is shown only once and not stored."""

    key: ApiKey
    text: str

    def __repr__(self) -> str:
        return f"NewKey({self.key!r}, text='…')"


class OneTimeLink(NamedTuple):
    """The first browser that brings the token is signed in as this user."""

    token: str
    name: str
    expires_at: Instant

    def __repr__(self) -> str:
        return f"OneTimeLink(token='…', name={self.name!r}, expires_at={self.expires_at!r})"


class SessionLine(Row, frozen=True):
    """A session as its user sees it in a list."""

    id: str
    org: str
    kind: SignInKind
    created_at: Instant
    seen_at: Instant
    expires_at: Instant


class Membership(Row, frozen=True):
    """An organization that a user may enter, and their role there."""

    org: str
    title: str
    role: Role
