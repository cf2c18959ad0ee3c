"""The members of an organization, and their roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redrive.engine.encryption import KeyRotation, Rotated
from redrive.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    DriftError,
    InvalidValueError,
    NameTakenError,
)
from redrive.identity.accounts import MemberAccounts
from redrive.identity.credentials import CredentialLookup
from redrive.identity.keys import Keys
from redrive.identity.member_lookup import MemberLookup
from redrive.identity.one_time import OneTimeSecrets
from redrive.identity.organizations import OrganizationDirectory
from redrive.identity.services import IdentityServices
from redrive.identity.sessions import UserSessions
from redrive.model.audit import Action
from redrive.model.identity import HOME, Member, MemberPage, User
from redrive.model.role import Role
from redrive.policy.access import Permission, Principal, require_permission
from redrive.policy.bounds import require_kind, require_whole
from redrive.policy.credential import user_name
from redrive.policy.user_text import refuse_secret
from redrive.store.database import Session

MAX_PAGE_SIZE = 500


class Members:
    """The members of the principal's organization. `who` is the name or id of a user.

    accounts       sign-in links, passwords, disabling and enabling accounts
    keys           create, rotate and revoke API keys
    organizations  list organizations, and create them as an owner of the home organization
    sessions       sign users in and out
    credentials    resolve an API key or a session token to its owner
    """

    def __init__(self, services: IdentityServices, principal: Principal) -> None:
        lookup = MemberLookup(services, principal)
        self.accounts = MemberAccounts(services, principal, lookup, OneTimeSecrets(services))
        self.keys = Keys(services, principal)
        self.organizations = OrganizationDirectory(services, principal)
        self.sessions = UserSessions(services)
        self.credentials = CredentialLookup(services.store, self.sessions)
        self.principal = principal
        self._encryption = services.encryption
        self._new_id = services.ids.new
        self._redactor = services.redactor
        self._store = services.store
        self._memberships = services.store.memberships
        self._users = services.store.users
        self._lookup = lookup
        self._org = principal.org

    async def list(self, *, size: int = 50, cursor: str | None = None) -> MemberPage:
        """List members by name. `cursor` is the last name on the previous page."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        after = "" if cursor is None else user_name(cursor)
        found = await self._memberships.page(self._org, size + 1, after)
        return MemberPage(tuple(found[:size]), found[size - 1].name if len(found) > size else None)

    async def view(self, who: str) -> Member:
        return await self._lookup.find(who)

    async def add(self, name: str, role: Role | str) -> Member:
        """Make a user a member. Creates an account without a password if the name is new."""
        checked, parsed = user_name(name), Role.parse(role)
        self._lookup.require(parsed)
        refuse_secret("the name of a member", checked, self._redactor)
        async with self._store.database.transaction() as session:
            await self._store.organizations.lock(session, self._org)
            user, detail = await self._account(session, checked)
            if not await self._memberships.insert(session, self._org, user.id, parsed, self.principal.name):
                raise AlreadyExistsError(
                    f"{checked!r} is already a member of {self._org!r}; change the role instead"
                )
            member = await self._lookup.find(user.id, session)
            await self._lookup.audit(session, Action.MEMBER_ADDED, member, {"role": str(parsed), **detail})
        return member

    async def change(
        self,
        who: str,
        *,
        role: Role | str | None = None,
        active: bool | None = None,
        version: int | None = None,
    ) -> Member:
        """Change a member's role, or activate or deactivate the member.

        Raises DriftError if `version` is given and not the current version.
        """
        async with self._store.database.transaction() as session:
            before = await self._lookup.lock(session, who, version)
            wanted = before.role if role is None else Role.parse(role)
            if active is not None:
                require_kind("active", active, bool)
            able = before.active if active is None else bool(active)
            self._lookup.require(max(before.role, wanted, key=lambda role: role.rank))
            if (wanted, able) == (before.role, before.active):
                return before
            if before.owns and not (wanted is Role.OWNER and able):
                await self._lookup.require_other_owner(session, before)
                await self._store.one_time.drop_made_by(session, before.name)
            await self._memberships.change(session, self._org, before.user_id, wanted, able)
            after = await self._lookup.find(before.user_id, session)
            await self._lookup.audit(session, Action.MEMBER_CHANGED, after, _difference(before, after))
        return after

    async def remove(self, who: str, *, version: int | None = None) -> None:
        """Remove a member. Their account and other memberships remain."""
        async with self._store.database.transaction() as session:
            member = await self._lookup.lock(session, who, version)
            self._lookup.require(member.role)
            await self._remove(session, member)

    async def leave(self) -> None:
        """Leave the organization: remove the principal's own membership."""
        if self.principal.user_id is None:
            raise InvalidValueError("only a signed-in user can leave; to remove an API key, revoke it")
        async with self._store.database.transaction() as session:
            await self._remove(session, await self._lookup.lock(session, self.principal.user_id))

    async def rotate_encryption_keys(self) -> Rotated:
        """Re-encrypt every stored value that is not encrypted with the newest key."""
        require_permission(self.principal, Permission.MANAGE)
        if not self.principal.everywhere:
            raise AccessDeniedError(
                f"only owners of the organization {HOME!r} can rotate encryption keys; ask one of them"
            )
        return await KeyRotation(self._store, self._encryption, self.principal.caller).run()

    async def _remove(self, session: Session, member: Member) -> None:
        if member.owns:
            await self._lookup.require_other_owner(session, member)
        await self._memberships.remove(session, self._org, member.user_id)
        await self._store.one_time.drop_made_by(session, member.name)
        await self._lookup.audit(session, Action.MEMBER_REMOVED, member, {"role": str(member.role)})

    async def _account(self, session: Session, name: str) -> tuple[User, Mapping[str, Any]]:
        """Find or create the user with this name. Also return details of the account for the audit log."""
        created = await self._users.insert(session, self._new_id(), name, self._org, self.principal.name)
        if created is not None:
            return created, {"account": "new"}
        found = await self._users.locked_by_name(session, name)
        if found is None:
            raise DriftError(f"the account {name!r} has just been removed; try again")
        if found.org in (self._org, HOME):
            return found, {}
        if not self.principal.everywhere:
            raise NameTakenError(
                f"the name {name!r} can't be used here; choose another name, or ask an owner of {HOME!r} to "
                f"add the person"
            )
        await self._adopt(session, found)
        return found, {"account": "adopted"}

    async def _adopt(self, session: Session, user: User) -> None:
        """Move an account to the home organization.

        Invalidate its password, sessions and links, which the previous owners may know.
        """
        await self._users.adopt(session, user.id, HOME)
        await self._store.sessions.end_others(session, user.id)
        await self._store.one_time.drop_of_user(session, user.id)


def _difference(before: Member, after: Member) -> dict[str, Any]:
    pairs = {"role": (str(before.role), str(after.role)), "active": (before.active, after.active)}
    return {name: {"before": old, "after": new} for name, (old, new) in pairs.items() if old != new}
