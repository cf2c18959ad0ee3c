"""Identity: organizations, users, memberships, and API keys of programs.

Classes that hold a secret hide it in their `repr`.
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
"""The user that the embedded server signs in with a link."""

KEY_PREFIX = "rdk_"


class SignInKind(StrEnum):
    """How a user signed in."""

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
    """A person's identity at an OpenID provider."""

    issuer: str
    subject: str


class User(Row, frozen=True):
    """A person with an account.

    org              the organization responsible for the account: its owners may create sign-in links for it
    password         the password hash; None if the user has no password
    password_number  increases with every new password, but not when the same password is hashed again
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
    """A user in an organization. `version` increases with every change; `disabled` applies everywhere."""

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
        """Whether this member may act in the organization."""
        return self.active and not self.disabled

    @property
    def owns(self) -> bool:
        """Whether this member is an owner who may act; an organization must keep at least one."""
        return self.counts and self.role is Role.OWNER


class MemberPage(NamedTuple):
    """A page, sorted by name. `next_cursor` is None on the last page."""

    members: tuple[Member, ...]
    next_cursor: str | None


class OrganizationPage(NamedTuple):
    """A page, sorted by name. `next_cursor` is None on the last page."""

    organizations: tuple[Organization, ...]
    next_cursor: str | None


class ApiKey(Row, frozen=True):
    """An API key without its secret.

    scopes               the permissions that the key is limited to; None: all permissions of its role
    previous_expires_at  the instant until which the secret before the last rotation is also valid
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
        """The start of the key's text: enough to recognize it, not enough to use it."""
        return f"{KEY_PREFIX}{self.id}"


class KeyPage(NamedTuple):
    """A page, newest first. `next_cursor` is None on the last page."""

    keys: tuple[ApiKey, ...]
    next_cursor: str | None


class NewKey(NamedTuple):
    """A new key and its text, which is shown only once and never stored."""

    key: ApiKey
    text: str

    def __repr__(self) -> str:
        return f"NewKey({self.key!r}, text='…')"


class OneTimeLink(NamedTuple):
    """A link that signs in the first browser that opens it, as this user."""

    token: str
    name: str
    expires_at: Instant

    def __repr__(self) -> str:
        return f"OneTimeLink(token='…', name={self.name!r}, expires_at={self.expires_at!r})"


class SessionLine(Row, frozen=True):
    """A session in its user's list."""

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
