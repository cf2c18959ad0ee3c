"""Access: the permissions of each role. Everything else is denied."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from redrive.model.role import Role


class Permission(StrEnum):
    """What a request needs. API keys can be limited to some of them, their scopes."""

    READ = "read"
    """Look at everything, redacted."""
    PLAN = "plan"
    """Plan a replay, without starting it."""
    NOTE = "note"
    """Write notes, tag, assign, save views."""
    START = "start"
    """Start runs."""
    OPERATE = "operate"
    """Replay, resolve, ignore, archive, reopen, retry, cancel."""
    CONTROL = "control"
    """Queues and breakers."""
    REVEAL = "reveal"
    """See a payload with its secrets, for a reason that the audit keeps."""
    MANAGE = "manage"
    """Members, keys, organizations, settings, clearing."""


_VIEWER = frozenset({Permission.READ, Permission.PLAN})
_STAFF = _VIEWER | {Permission.NOTE}
_ADMIN = _STAFF | {Permission.START, Permission.OPERATE, Permission.CONTROL, Permission.REVEAL}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.STAFF: _STAFF,
    Role.ADMIN: _ADMIN,
    Role.OWNER: frozenset(Permission),
}


def permitted(role: Role, scopes: frozenset[Permission] | None = None) -> frozenset[Permission]:
    """What a role may do; with scopes, of that only these."""
    return PERMISSIONS[role] if scopes is None else PERMISSIONS[role] & scopes
