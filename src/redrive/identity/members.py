"""The members of an organization, and what they are in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redrive.errors import AlreadyExistsError, DriftError, InvalidValueError
from redrive.identity.member_lookup import MemberLookup
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import HOME, Member, MemberPage, User
from redrive.model.role import Role
from redrive.policy.bounds import require_kind, require_whole
from redrive.policy.credential import user_name
from redrive.policy.principal import Principal
from redrive.policy.user_text import refuse_secret
from redrive.store.database import Session

MAX_PAGE_SIZE = 500


class Members:
    """Of the principal's organization. `who` is the name or the id of a user."""

    def __init__(self, kit: IdentityServices, principal: Principal) -> None:
        self._kit = kit
        self._store = kit.store
        self._memberships = kit.store.memberships
        self._users = kit.store.users
        self._roll = MemberLookup(kit, principal)
        self._principal = principal
        self._org = principal.org

    async def list(self, *, size: int = 50, cursor: str | None = None) -> MemberPage:
        """By name."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        after = "" if cursor is None else user_name(cursor)
        found = await self._memberships.page(self._org, size + 1, after)
        return MemberPage(tuple(found[:size]), found[size - 1].name if len(found) > size else None)

    async def get(self, who: str) -> Member:
        return await self._roll.found(who)

    async def add(self, name: str, role: Role | str) -> Member:
        """Make somebody a member. Who is not known yet gets an account that has no password so far."""
        known, wanted = user_name(name), Role.parse(role)
        self._roll.require(wanted)
        refuse_secret("the name of a member", known, self._kit.redactor)
        async with self._store.database.transaction() as session:
            await self._store.organizations.lock(session, self._org)
            user, detail = await self._account(session, known)
            if not await self._memberships.insert(session, self._org, user.id, wanted, self._principal.name):
                raise AlreadyExistsError(f"{known!r} is a member of {self._org!r} already; change the role")
            member = await self._roll.found(user.id, session)
            await self._roll.audit(session, Action.MEMBER_ADDED, member, {"role": str(wanted), **detail})
        return member

    async def change(
        self,
        who: str,
        *,
        role: Role | str | None = None,
        active: bool | None = None,
        version: int | None = None,
    ) -> Member:
        """Another role, or let them rest. With `version`, only when nobody has changed them since."""
        async with self._store.database.transaction() as session:
            before = await self._roll.locked(session, who, version)
            wanted = before.role if role is None else Role.parse(role)
            able = before.active if active is None else _checked_flag(active)
            self._roll.require(max(before.role, wanted, key=_rank))
            if (wanted, able) == (before.role, before.active):
                return before
            if before.owns and not (wanted is Role.OWNER and able):
                await self._roll.keep_an_owner(session, before)
                await self._store.one_time.drop_made_by(session, before.name)
            await self._memberships.change(session, self._org, before.user_id, wanted, able)
            after = await self._roll.found(before.user_id, session)
            await self._roll.audit(session, Action.MEMBER_CHANGED, after, _difference(before, after))
        return after

    async def remove(self, who: str, *, version: int | None = None) -> None:
        """Their account stays, and what they may do elsewhere."""
        async with self._store.database.transaction() as session:
            member = await self._roll.locked(session, who, version)
            self._roll.require(member.role)
            await self._remove(session, member)

    async def leave(self) -> None:
        """Whoever calls is no member any more."""
        if self._principal.user_id is None:
            raise InvalidValueError("only a user who is signed in can leave; keys are revoked")
        async with self._store.database.transaction() as session:
            await self._remove(session, await self._roll.locked(session, self._principal.user_id))

    async def _remove(self, session: Session, member: Member) -> None:
        if member.owns:
            await self._roll.keep_an_owner(session, member)
        await self._memberships.remove(session, self._org, member.user_id)
        await self._store.one_time.drop_made_by(session, member.name)
        await self._roll.audit(session, Action.MEMBER_REMOVED, member, {"role": str(member.role)})

    async def _account(self, session: Session, name: str) -> tuple[User, Mapping[str, Any]]:
        """The user of that name, made if there is none; and what the audit should know about it."""
        made = await self._users.insert(session, self._kit.ids.new(), name, self._org, self._principal.name)
        if made is not None:
            return made, {"account": "new"}
        found = await self._users.locked_by_name(session, name)
        if found is None:
            raise DriftError(f"the account {name!r} was removed just now; try again")
        if found.org in (self._org, HOME):
            return found, {}
        if not self._principal.everywhere:
            raise AlreadyExistsError(
                f"the name {name!r} belongs to an account of another organization; an owner of {HOME!r} can "
                f"add it here"
            )
        return found, await self._adopt(session, found)

    async def _adopt(self, session: Session, user: User) -> Mapping[str, Any]:
        """The owners of the organization that made the account may know its password, and must not be able to
        follow it here."""
        await self._users.adopt(session, user.id, HOME)
        await self._store.sessions.end_others(session, user.id)
        await self._store.one_time.drop_of_user(session, user.id)
        return {"account": "adopted"}


def _rank(role: Role) -> int:
    return role.rank


def _difference(before: Member, after: Member) -> dict[str, Any]:
    pairs = {"role": (str(before.role), str(after.role)), "active": (before.active, after.active)}
    return {name: {"before": one, "after": two} for name, (one, two) in pairs.items() if one != two}


def _checked_flag(active: object) -> bool:
    require_kind("active", active, bool)
    return bool(active)
