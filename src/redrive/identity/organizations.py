"""Organizations as the owners of the installation make them."""

from __future__ import annotations

from redrive.engine.task import checked_name
from redrive.errors import AccessDeniedError, AlreadyExistsError, NotFoundError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import HOME, Organization, OrganizationPage
from redrive.policy.access import Permission
from redrive.policy.bounds import require_kind, require_whole
from redrive.policy.principal import Principal, require_permission
from redrive.policy.user_text import clean_word, refuse_secret

MAX_PAGE_SIZE = 500


class Organizations:
    """Owners of the home organization see all of them, everybody else their own."""

    def __init__(self, kit: IdentityServices, principal: Principal) -> None:
        self._kit = kit
        self._organizations = kit.store.organizations
        self._principal = principal

    async def create(self, name: str, title: str = "") -> Organization:
        """It begins without members; whoever creates it can add them."""
        require_permission(self._principal, Permission.MANAGE)
        if not self._principal.everywhere:
            raise AccessDeniedError(f"only owners of the organization {HOME!r} create organizations")
        known, said = checked_name("org", name), self._said(title)
        refuse_secret("the name of an organization", known, self._kit.redactor)
        async with self._kit.store.database.transaction() as session:
            made = await self._organizations.insert(session, known, said, self._principal.name)
            if made is None:
                raise AlreadyExistsError(f"there is an organization {known!r} already; take another name")
            by, detail = self._principal.name, {"title": said}
            await self._kit.audit(session, HOME, by, Action.ORGANIZATION_CREATED, [known], detail)
        return made

    async def get(self, name: str | None = None) -> Organization:
        """By default the one that the caller stands in."""
        own = self._principal.org
        if name not in (None, own) and not self._principal.everywhere:
            raise NotFoundError(f"there is no organization {name!r:.250}")
        return await self._organizations.get(own if name is None else name)

    async def list(self, *, size: int = 50, cursor: str | None = None) -> OrganizationPage:
        """By name."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        if not self._principal.everywhere:
            return OrganizationPage((await self.get(),), None)
        found = await self._organizations.page(size + 1, checked_cursor(cursor))
        return OrganizationPage(tuple(found[:size]), found[size - 1].name if len(found) > size else None)

    def _said(self, title: str) -> str:
        require_kind("title", title, str)
        return clean_word("title", title, self._kit.redactor) if title.strip() else ""


def checked_cursor(cursor: str | None) -> str:
    """Of a list by name: the last name of the page before."""
    if cursor is None:
        return ""
    return checked_name("cursor", cursor)
