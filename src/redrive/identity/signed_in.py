"""Somebody who is signed in: who they are in the organization that their session stands in, right now."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.identity import SessionLine
from redrive.model.role import Role
from redrive.policy.access import permitted
from redrive.policy.credential import csrf_of
from redrive.policy.principal import SESSION, Principal, role_in
from redrive.store.memberships import Roles
from redrive.store.sessions import KnownSession


class SignedIn(NamedTuple):
    """`csrf` is what a page has to send with every change."""

    principal: Principal
    session: SessionLine
    csrf: str

    def __repr__(self) -> str:
        return f"SignedIn({self.principal!r}, {self.session!r}, csrf='…')"


class NewSession(NamedTuple):
    """`token` belongs into a cookie that no script can read, and nowhere else."""

    token: str
    signed_in: SignedIn

    def __repr__(self) -> str:
        return f"NewSession(token='…', {self.signed_in!r})"


def standing_of(roles: Roles) -> Role | None:
    return role_in(roles.there, roles.at_home is Role.OWNER)


def signed_in(token: str, known: KnownSession) -> SignedIn | None:
    """None when the user is nobody there any more (W12)."""
    role = standing_of(known.roles)
    if role is None:
        return None
    principal = Principal(
        org=known.line.org,
        name=known.user_name,
        role=role,
        permissions=permitted(role),
        kind=SESSION,
        id=known.line.id,
        user_id=known.user_id,
        everywhere=known.roles.at_home is Role.OWNER,
    )
    return SignedIn(principal, known.line, csrf_of(token))
