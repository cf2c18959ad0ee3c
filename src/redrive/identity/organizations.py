"""List, view and create organizations, within the rights of a principal."""

from __future__ import annotations

from redrive.engine.task import checked_name
from redrive.errors import AccessDeniedError, AlreadyExistsError, NotFoundError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import HOME, Organization, OrganizationPage
from redrive.policy.access import Permission, Principal, require_permission
from redrive.policy.bounds import require_kind, require_whole
from redrive.policy.user_text import clean_word, refuse_secret

MAX_PAGE_SIZE = 500


class OrganizationDirectory:
    """Owners of the home organization see and create all organizations. Others see only their own."""

    def __init__(self, services: IdentityServices, principal: Principal) -> None:
        self._services = services
        self._database = services.store.database
        self._organizations = services.store.organizations
        self._redactor = services.redactor
        self._principal = principal

    async def create(self, name: str, title: str = "") -> Organization:
        """Create an organization without members; its creator can add them."""
        require_permission(self._principal, Permission.MANAGE)
        if not self._principal.everywhere:
            raise AccessDeniedError(
                f"only owners of the organization {HOME!r} can create organizations; ask one of them"
            )
        org = checked_name("org", name)
        self._services.store.require_isolated(org)
        refuse_secret("the name of an organization", org, self._redactor)
        require_kind("title", title, str)
        clean_title = clean_word("title", title, self._redactor) if title.strip() else ""
        async with self._database.transaction() as session:
            created = await self._organizations.insert(session, org, clean_title, self._principal.name)
            if created is None:
                raise AlreadyExistsError(f"the organization {org!r} already exists; use another name")
            by, detail = self._principal.name, {"title": clean_title}
            await self._services.audit(session, HOME, by, Action.ORGANIZATION_CREATED, [org], detail)
        return created

    async def view(self, name: str | None = None) -> Organization:
        """Return an organization, by default the principal's own."""
        own = self._principal.org
        if name not in (None, own) and not self._principal.everywhere:
            raise NotFoundError(f"found no organization {name!r:.250}")
        return await self._organizations.get(own if name is None else name)

    async def list(self, *, size: int = 50, cursor: str | None = None) -> OrganizationPage:
        """List organizations by name. `cursor` is the last name on the previous page."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        if not self._principal.everywhere:
            return OrganizationPage((await self.view(),), None)
        after = "" if cursor is None else checked_name("cursor", cursor)
        found = await self._organizations.page(size + 1, after)
        return OrganizationPage(tuple(found[:size]), found[size - 1].name if len(found) > size else None)
