"""The accounts of members: links to sign in by, passwords, and locking them out.

An account belongs to the organization that made it, or to the home one, and only there is any of this handed
out. Otherwise the owners of one organization could sign in to another as somebody whom they have named.
"""

from __future__ import annotations

from redrive.errors import AccessDeniedError, NotFoundError, TransitionError
from redrive.identity.member_lookup import MemberLookup
from redrive.identity.one_time import OneTime
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import HOME, Member, OneTimeLink, User
from redrive.model.role import Role
from redrive.policy.principal import Principal
from redrive.store.database import Session

LINK_MINUTES = 60.0


class Accounts:
    """Of members of the principal's organization. `who` is the name or the id of a user."""

    def __init__(self, kit: IdentityServices, principal: Principal) -> None:
        self._kit = kit
        self._store = kit.store
        self._roll = MemberLookup(kit, principal)
        self._one_time = OneTime(kit)
        self._principal = principal

    async def link(self, who: str, *, minutes: float = LINK_MINUTES) -> OneTimeLink:
        """Signs them in once, also to set a first password. Whoever has it can be that user."""
        self._require()
        async with self._store.database.transaction() as session:
            member = await self._roll.found(who, session)
            user = await self._controlled(session, member)
            if not member.counts:
                raise TransitionError(f"{member.name!r} cannot sign in: activate or enable them first")
            link = await self._one_time.put_link(session, user, minutes, self._principal.name)
            await self._roll.audit(session, Action.MEMBER_LINKED, member, {"expires_at": link.expires_at})
        return link

    async def set_password(self, who: str, password: str) -> None:
        """Ends all their sessions, and the links that were handed out."""
        self._require()
        hashed = await self._kit.passwords.hash(password)
        async with self._store.database.transaction() as session:
            member = await self._roll.found(who, session)
            user = await self._controlled(session, member)
            await self._store.users.set_password(session, user.id, hashed)
            await self._sign_out(session, user)
            await self._roll.audit(session, Action.USER_PASSWORD_CHANGED, member, {})

    async def disable(self, who: str) -> None:
        """They cannot sign in anywhere any more, and are signed out everywhere."""
        self._require()
        async with self._store.database.transaction() as session:
            member, owned = await self._roll.locked_everywhere(session, who)
            user = await self._controlled(session, member)
            if member.disabled:
                return
            for org in owned:
                await self._roll.keep_an_owner(session, member, org)
            await self._store.users.disable(session, user.id)
            await self._sign_out(session, user)
            await self._store.one_time.drop_made_by(session, user.name)
            await self._roll.audit(session, Action.USER_DISABLED, member, {})

    async def enable(self, who: str) -> None:
        self._require()
        async with self._store.database.transaction() as session:
            member = await self._roll.found(who, session)
            user = await self._controlled(session, member)
            if await self._store.users.enable(session, user.id):
                await self._roll.audit(session, Action.USER_ENABLED, member, {})

    def _require(self) -> None:
        """A link or a password is everything that its user may do, so it takes an owner to hand it out."""
        self._roll.require(Role.OWNER)

    async def _controlled(self, session: Session, member: Member) -> User:
        user = await self._store.users.lock(session, member.user_id)
        if user is None:
            raise NotFoundError(f"there is no account of {member.name!r} any more")
        if user.org != member.org and not self._principal.everywhere:
            raise AccessDeniedError(
                f"the account of {user.name!r} does not belong to {member.org!r}; ask an owner of {HOME!r}"
            )
        return user

    async def _sign_out(self, session: Session, user: User) -> None:
        await self._store.sessions.end_others(session, user.id)
        await self._store.one_time.drop_of_user(session, user.id)
