"""The roll of an organization: finding its members, and locking them while something is done about them.

The row of the organization is locked before those of users. So of two changes of its owners one comes second,
and sees what the first has done: it never loses its last owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redrive.errors import DriftError, LastOwnerError, NotFoundError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import Member
from redrive.model.role import Role
from redrive.policy.access import Permission
from redrive.policy.bounds import require_whole
from redrive.policy.credential import findable_user, is_id
from redrive.policy.principal import Principal, require_grant, require_permission
from redrive.store.database import Session

_MAX_VERSION = 2**31 - 1


class MemberLookup:
    def __init__(self, kit: IdentityServices, principal: Principal) -> None:
        self._kit = kit
        self._store = kit.store
        self._principal = principal
        self._org = principal.org

    def require(self, role: Role) -> None:
        """Whoever manages somebody of this role must be able to give it."""
        require_permission(self._principal, Permission.MANAGE)
        require_grant(self._principal, role)

    async def found(self, who: object, session: Session | None = None) -> Member:
        """By name or by id."""
        user_id = who if isinstance(who, str) and is_id(who) else ""
        member = await self._store.memberships.find(self._org, user_id, findable_user(who), session)
        if member is None:
            raise NotFoundError(f"there is no member {who!r:.250}; see the list of members")
        return member

    async def locked(self, session: Session, who: object, version: int | None = None) -> Member:
        """As it is now, until the transaction ends; refused when it is not of this version any more."""
        await self._store.organizations.lock(session, self._org)
        await self._store.users.lock(session, (await self.found(who, session)).user_id)
        member = await self.found(who, session)
        if version is not None:
            require_whole("version", version, 1, _MAX_VERSION)
        if version not in (None, member.version):
            raise DriftError(
                f"{member.name!r} was changed since: version {version} is now {member.version}; look again",
                number=member.version,
            )
        return member

    async def locked_everywhere(self, session: Session, who: object) -> tuple[Member, list[str]]:
        """With the organizations that they own, locked too: nobody becomes or ceases to be an owner there."""
        memberships = self._store.memberships
        user_id = (await self.found(who, session)).user_id
        owned = await memberships.owned_by(session, user_id)
        for org in owned:
            await self._store.organizations.lock(session, org)
        await self._store.users.lock(session, user_id)
        member = await self.found(who, session)
        if owned != await memberships.owned_by(session, user_id):
            raise DriftError(f"the memberships of {member.name!r} have changed just now; try again")
        return member, owned

    async def keep_an_owner(self, session: Session, member: Member, org: str | None = None) -> None:
        """Refuse to go on when nobody but this member owns the organization."""
        org = self._org if org is None else org
        if not await self._store.memberships.other_owners(session, org, member.user_id):
            raise LastOwnerError(
                f"{member.name!r} is the last owner of the organization {org!r}; make somebody else an owner "
                f"first"
            )

    async def audit(
        self, session: Session, action: Action, member: Member, detail: Mapping[str, Any]
    ) -> None:
        told = {"name": member.name, **detail}
        await self._kit.audit(session, self._org, self._principal.name, action, [member.user_id], told)
