"""Find the members of an organization, and lock them during a change.

Every change locks the organization's row before the rows of users. So the second of two concurrent changes of
owners waits for the first and sees its result, and the organization never loses its last owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redrive.errors import DriftError, LastOwnerError, NotFoundError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import Member
from redrive.model.role import Role
from redrive.policy.access import Permission, Principal, require_grant, require_permission
from redrive.policy.bounds import require_whole
from redrive.policy.credential import findable_user, is_id
from redrive.store.database import Session

_MAX_VERSION = 2**31 - 1


class MemberLookup:
    """Members of the principal's organization. `who` is the name or id of a user."""

    def __init__(self, services: IdentityServices, principal: Principal) -> None:
        self._services = services
        self._users = services.store.users
        self._memberships = services.store.memberships
        self._organizations = services.store.organizations
        self._principal = principal
        self._org = principal.org

    def require(self, role: Role) -> None:
        """Require that the principal may manage members and grant this role."""
        require_permission(self._principal, Permission.MANAGE)
        require_grant(self._principal, role)

    async def find(self, who: object, session: Session | None = None) -> Member:
        user_id = who if isinstance(who, str) and is_id(who) else ""
        member = await self._memberships.find(self._org, user_id, findable_user(who), session)
        if member is None:
            raise NotFoundError(f"found no member {who!r:.250}; see the list of members")
        return member

    async def lock(self, session: Session, who: object, version: int | None = None) -> Member:
        """Lock a member until the transaction ends. DriftError if `version` is not the current version."""
        await self._organizations.lock(session, self._org)
        await self._users.lock(session, (await self.find(who, session)).user_id)
        member = await self.find(who, session)
        if version is not None:
            require_whole("version", version, 1, _MAX_VERSION)
        if version not in (None, member.version):
            raise DriftError(
                f"{member.name!r} has changed: version {version} is now {member.version}. Reload and retry",
                number=member.version,
            )
        return member

    async def lock_everywhere(self, session: Session, who: object) -> tuple[Member, list[str]]:
        """Lock a member and the organizations that they own, so that the owners there can't change."""
        user_id = (await self.find(who, session)).user_id
        owned = await self._memberships.owned_by(session, user_id)
        for org in owned:
            await self._organizations.lock(session, org)
        await self._users.lock(session, user_id)
        member = await self.find(who, session)
        if owned != await self._memberships.owned_by(session, user_id):
            raise DriftError(f"the memberships of {member.name!r} have just changed; try again")
        return member, owned

    async def require_other_owner(self, session: Session, member: Member, org: str | None = None) -> None:
        """Raise LastOwnerError if this member is the only owner of the organization."""
        org = self._org if org is None else org
        if not await self._memberships.other_owners(session, org, member.user_id):
            raise LastOwnerError(
                f"{member.name!r} is the last owner of the organization {org!r}; make another member an "
                f"owner first"
            )

    async def audit(
        self, session: Session, action: Action, member: Member, detail: Mapping[str, Any]
    ) -> None:
        detail = {"name": member.name, **detail}
        await self._services.audit(session, self._org, self._principal.name, action, [member.user_id], detail)
