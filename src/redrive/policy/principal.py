"""The principal: who acts, in which organization, and with which permissions. The default is to deny."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import AccessDeniedError
from redrive.model.caller import Caller
from redrive.model.identity import HOME
from redrive.model.role import Role
from redrive.policy.access import Permission, permitted

KEY, SESSION, PROGRAM = "key", "session", "program"


class Principal(NamedTuple):
    """
    kind        "key", "session", or "program": code that was given the application itself
    id          of the key or the session
    everywhere  an owner of the home organization, wherever they stand
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
        """Tells people and keys apart, whatever they are called and in however many sessions."""
        return f"{self.kind}:{self.user_id or self.id}"

    @property
    def at_home(self) -> bool:
        """Queues, breakers and workers belong to the home organization."""
        return self.org == HOME

    def may_grant(self, role: Role, scopes: frozenset[Permission] | None = None) -> bool:
        """May they give somebody these rights? Nobody gives more than they have."""
        return role.rank <= self.role.rank and permitted(role, scopes) <= self.permissions


def program(caller: Caller) -> Principal:
    """Code that has the application in its hands can do everything anyway."""
    return Principal(
        caller.org, caller.name, Role.OWNER, frozenset(Permission), PROGRAM, caller.name, None, True
    )


def role_in(membership: Role | None, owns_home: bool) -> Role | None:
    """As what a user stands in an organization: by an active membership, or as an owner of the home one."""
    return Role.OWNER if owns_home else membership


def require_permission(principal: Principal, permission: Permission) -> None:
    if permission not in principal.permissions:
        raise AccessDeniedError(
            f"{principal.name!r} may not {permission} in the organization {principal.org!r}; "
            f"ask one of its owners"
        )


def require_grant(principal: Principal, role: Role, scopes: frozenset[Permission] | None = None) -> None:
    if not principal.may_grant(role, scopes):
        raise AccessDeniedError(
            f"{principal.name!r} cannot give the rights of {role}: nobody gives more than they have"
        )
