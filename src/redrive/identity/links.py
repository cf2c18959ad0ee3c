"""Links for any user, by whoever has the application in their hands. Members get theirs by their owners."""

from __future__ import annotations

from redrive.errors import NotFoundError
from redrive.identity.one_time import OneTime
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.caller import SELF, checked_caller
from redrive.model.identity import HOME, OPERATOR, OneTimeLink, User
from redrive.model.role import Role
from redrive.policy.credential import findable_user
from redrive.store.database import Session


class Links:
    def __init__(self, kit: IdentityServices) -> None:
        self._kit = kit
        self._store = kit.store
        self._one_time = OneTime(kit)

    async def link(self, name: str, minutes: float, by: str) -> OneTimeLink:
        user = await self._store.users.named(findable_user(name))
        if user is None:
            raise NotFoundError(f"there is no user {name!r:.250}; add them to an organization first")
        return await self._link(user, minutes, checked_caller(by))

    async def embedded(self, minutes: float) -> OneTimeLink | None:
        user = await self._operator()
        standings = await self._store.memberships.standings(self._store.database, user.id, 1)
        if user.disabled_at is not None or not standings:
            return None
        return await self._link(user, minutes, SELF)

    async def _operator(self) -> User:
        async with self._store.database.transaction() as session:
            await self._store.organizations.lock(session, HOME)
            found = await self._store.users.named(OPERATOR, session)
            return await self._new_operator(session) if found is None else found

    async def _new_operator(self, session: Session) -> User:
        user = await self._store.users.insert(session, self._kit.ids.new(), OPERATOR, HOME, SELF)
        if user is None:
            raise NotFoundError(f"the user {OPERATOR!r} was made by somebody else just now; try again")
        await self._store.memberships.insert(session, HOME, user.id, Role.OWNER, SELF)
        told = {"name": OPERATOR, "role": str(Role.OWNER), "account": "new"}
        await self._kit.audit(session, HOME, SELF, Action.MEMBER_ADDED, [user.id], told)
        return user

    async def _link(self, user: User, minutes: float, by: str) -> OneTimeLink:
        async with self._store.database.transaction() as session:
            link = await self._one_time.put_link(session, user, minutes, by)
            told = {"name": user.name, "expires_at": link.expires_at}
            await self._kit.audit(session, HOME, by, Action.MEMBER_LINKED, [user.id], told)
        return link
