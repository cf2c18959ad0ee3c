"""Accounts of members: sign-in links, passwords, disabling and enabling.

An account belongs to the organization that created it, or to the home organization. Only the owners of that
organization control the account. Otherwise the owners of one organization could add a member of another and
sign in as them.
"""

from __future__ import annotations

from redrive.errors import AccessDeniedError, NotFoundError, TransitionError
from redrive.identity.member_lookup import MemberLookup
from redrive.identity.one_time import OneTimeSecrets
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import HOME, Member, OneTimeLink, User
from redrive.model.role import Role
from redrive.policy.access import Principal
from redrive.store.database import Session

LINK_MINUTES = 60.0


class MemberAccounts:
    """Accounts in the principal's organization. `who` is the name or id of a user.

    A sign-in link or a password grants all rights of its user, so only owners can create them.
    """

    def __init__(
        self,
        services: IdentityServices,
        principal: Principal,
        lookup: MemberLookup,
        one_time: OneTimeSecrets,
    ) -> None:
        self._store = services.store
        self._passwords = services.passwords
        self._principal = principal
        self._lookup = lookup
        self._one_time = one_time

    async def link(self, who: str, *, minutes: float = LINK_MINUTES) -> OneTimeLink:
        """Create a link that signs the user in once, for example to set a first password."""
        self._lookup.require(Role.OWNER)
        async with self._store.database.transaction() as session:
            member = await self._lookup.find(who, session)
            user = await self._controlled(session, member)
            if not member.counts:
                raise TransitionError(f"{member.name!r} can't sign in; activate or enable them first")
            link = await self._one_time.put_link(session, user, minutes, self._principal.name)
            await self._lookup.audit(session, Action.MEMBER_LINKED, member, {"expires_at": link.expires_at})
        return link

    async def set_password(self, who: str, password: str) -> None:
        """Set a password, and end the user's sessions and sign-in links."""
        self._lookup.require(Role.OWNER)
        hashed = await self._passwords.hash(password)
        async with self._store.database.transaction() as session:
            member = await self._lookup.find(who, session)
            user = await self._controlled(session, member)
            await self._store.users.set_password(session, user.id, hashed)
            await self._sign_out(session, user)
            await self._lookup.audit(session, Action.USER_PASSWORD_CHANGED, member, {})

    async def disable(self, who: str) -> None:
        """Sign the user out everywhere and block all sign-ins."""
        self._lookup.require(Role.OWNER)
        async with self._store.database.transaction() as session:
            member, owned = await self._lookup.lock_everywhere(session, who)
            user = await self._controlled(session, member)
            if member.disabled:
                return
            for org in owned:
                await self._lookup.require_other_owner(session, member, org)
            await self._store.users.disable(session, user.id)
            await self._sign_out(session, user)
            await self._store.one_time.drop_made_by(session, user.name)
            await self._lookup.audit(session, Action.USER_DISABLED, member, {})

    async def enable(self, who: str) -> None:
        self._lookup.require(Role.OWNER)
        async with self._store.database.transaction() as session:
            member = await self._lookup.find(who, session)
            user = await self._controlled(session, member)
            if await self._store.users.enable(session, user.id):
                await self._lookup.audit(session, Action.USER_ENABLED, member, {})

    async def _controlled(self, session: Session, member: Member) -> User:
        """Lock a member's account. Raise AccessDeniedError if the principal doesn't control it."""
        user = await self._store.users.lock(session, member.user_id)
        if user is None:
            raise NotFoundError(f"the account of {member.name!r} was removed just now")
        if user.org != member.org and not self._principal.everywhere:
            raise AccessDeniedError(
                f"the account of {user.name!r} does not belong to {member.org!r}; ask an owner of {HOME!r}"
            )
        return user

    async def _sign_out(self, session: Session, user: User) -> None:
        await self._store.sessions.end_others(session, user.id)
        await self._store.one_time.drop_of_user(session, user.id)
