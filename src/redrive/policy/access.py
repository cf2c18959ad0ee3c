"""Access control: the permissions of each role, and the principal that has them. All else is denied."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from redrive.errors import AccessDeniedError
from redrive.model.caller import Caller
from redrive.model.identity import HOME
from redrive.model.role import Role


class Permission(StrEnum):
    """A permission that a request needs. The scopes of an API key are the subset that it may use."""

    READ = "read"
    """Read everything, redacted."""
    PLAN = "plan"
    """Plan a replay, without starting it."""
    NOTE = "note"
    """Write notes, edit tags, assign, save views."""
    START = "start"
    """Start runs."""
    RETRY = "retry"
    """Replay dead letters and retry runs, one or in bulk."""
    ARCHIVE = "archive"
    """Archive dead letters."""
    OPERATE = "operate"
    """Resolve, ignore, reopen, cancel; includes retry and archive."""
    CONTROL = "control"
    """Control queues and breakers."""
    REVEAL = "reveal"
    """Read a payload with its secrets; the audit records the reason."""
    MANAGE = "manage"
    """Manage members, keys, organizations and settings; clear queues."""


_VIEWER = frozenset({Permission.READ, Permission.PLAN})
_STAFF = _VIEWER | {Permission.NOTE}
_OPERATOR = frozenset({Permission.OPERATE, Permission.RETRY, Permission.ARCHIVE})
_ADMIN = _STAFF | _OPERATOR | {Permission.START, Permission.CONTROL, Permission.REVEAL}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.STAFF: _STAFF,
    Role.ADMIN: _ADMIN,
    Role.OWNER: frozenset(Permission),
}


def permitted(role: Role, scopes: frozenset[Permission] | None = None) -> frozenset[Permission]:
    """Return the permissions of a role, limited to the scopes if there are any.

    The scope "operate" includes "retry" and "archive", which can also be granted alone.
    """
    if scopes is not None and Permission.OPERATE in scopes:
        scopes |= _OPERATOR
    return PERMISSIONS[role] if scopes is None else PERMISSIONS[role] & scopes


KEY, SESSION, PROGRAM = "key", "session", "program"


class Principal(NamedTuple):
    """The authenticated caller: the organization it acts in and its permissions.

    kind        "key", "session", or "program": code that has the application object
    id          the id of the key or the session
    everywhere  whether it is an owner of the home organization, who has access to all organizations
    """

    org: str
    name: str
    role: Role
    permissions: frozenset[Permission]
    kind: str
    id: str
    user_id: str | None = None
    everywhere: bool = False

    @property
    def caller(self) -> Caller:
        return Caller(self.org, self.name)

    @property
    def whose(self) -> str:
        """Identifies the user or the key, across all sessions of a user."""
        return f"{self.kind}:{self.user_id or self.id}"

    @property
    def at_home(self) -> bool:
        """Whether it acts in the home organization, which owns queues, breakers and workers."""
        return self.org == HOME

    def may_grant(self, role: Role, scopes: frozenset[Permission] | None = None) -> bool:
        """Return whether the principal may grant these permissions: at most its own."""
        return role.rank <= self.role.rank and permitted(role, scopes) <= self.permissions


def program(caller: Caller) -> Principal:
    """Return the principal of code that has the application object and therefore all permissions."""
    return Principal(
        caller.org, caller.name, Role.OWNER, frozenset(Permission), PROGRAM, caller.name, None, True
    )


def role_in(membership: Role | None, owns_home: bool) -> Role | None:
    """Return the role of a user in an organization; an owner of the home organization owns all of them."""
    return Role.OWNER if owns_home else membership


def may_retry(principal: Principal, owner: str | None) -> bool:
    """Return whether the principal may retry a run: with the permission to retry, or as its owner."""
    if Permission.RETRY in principal.permissions:
        return True
    return owner is not None and owner == principal.name and Permission.READ in principal.permissions


def require_permission(principal: Principal, permission: Permission) -> None:
    if permission not in principal.permissions:
        raise AccessDeniedError(
            f"{principal.name!r} may not {permission} in the organization {principal.org!r}; "
            f"ask one of its owners"
        )


def require_grant(principal: Principal, role: Role, scopes: frozenset[Permission] | None = None) -> None:
    if not principal.may_grant(role, scopes):
        raise AccessDeniedError(
            f"{principal.name!r} cannot grant these permissions of {role}: a caller can grant only its own"
        )
