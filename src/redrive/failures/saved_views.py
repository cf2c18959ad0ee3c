"""Saved views: named queries, shared within an organization. The audit records removed views."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.engine.ids import Ids
from redrive.errors import AlreadyExistsError, InvalidValueError, NotFoundError, TransitionError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.saved_view import Looking, SavedView, ViewedPage
from redrive.policy.bounds import choice, require_kind
from redrive.policy.query import require_understood
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_word, refuse_secret
from redrive.store.database import Session, findable
from redrive.store.store import Store

MAX_VIEWS = 100
MAX_NAME_LENGTH = 60


class SavedViews:
    """Manages the saved views of the caller's organization. No other views are visible."""

    def __init__(self, store: Store, ids: Ids, redactor: Redactor, caller: Caller) -> None:
        self._store = store
        self._ids = ids
        self._redactor = redactor
        self._caller = caller

    async def list(self, page: ViewedPage | str | None = None) -> Sequence[SavedView]:
        """All views, or the views of one page, sorted by name."""
        known = None if page is None else choice("page", page, ViewedPage)
        return await self._store.saved_views.list(self._caller.org, known)

    async def create(
        self, name: str, page: ViewedPage | str, query: str = "", *, view: str = "", sort: str = ""
    ) -> SavedView:
        """Save the query, view and sort order of a page under a name.

        If an identical view exists, return it. The parameters have the form of the URL of the page; `me` in a
        query is the person who opens the view.
        """
        new = self._new(name, self._looking(page, query, view, sort))
        async with self._store.database.transaction() as session:
            created = await self._store.saved_views.insert_if_new(session, new)
            if created is None:
                return await self._existing(session, new)
            await self._audit(session, Action.SAVED_VIEW_CREATED, created)
            # Appending locked the audit of the organization, so no other caller saves concurrently.
            if await self._store.saved_views.number(session, self._caller.org) > MAX_VIEWS:
                raise TransitionError(
                    f"the organization already has {MAX_VIEWS} saved views, the maximum; remove one first"
                )
        return created

    async def remove(self, view_id: str) -> SavedView:
        """Remove a view and return it."""
        async with self._store.database.transaction() as session:
            removed = await self._store.saved_views.remove(session, self._caller.org, findable(view_id))
            if removed is None:
                raise NotFoundError(f"found no saved view {view_id!r:.200}")
            await self._audit(session, Action.SAVED_VIEW_REMOVED, removed)
        return removed

    def _looking(self, page: ViewedPage | str, query: str, view: str, sort: str) -> Looking:
        for part, text in (("query", query), ("view", view), ("sort", sort)):
            require_kind(part, text, str)
        looking = Looking(
            page=choice("page", page, ViewedPage), query=query.strip(), view=view.lower(), sort=sort.lower()
        )
        require_understood(looking)
        refuse_secret("the query", looking.query, self._redactor)
        return looking

    def _new(self, name: str, looking: Looking) -> SavedView:
        known = clean_word("name", name, self._redactor)
        if len(known) > MAX_NAME_LENGTH:
            raise InvalidValueError(f"name must have 1 to {MAX_NAME_LENGTH} characters, got {len(known)}")
        org, by = self._caller
        return SavedView(
            id=self._ids.new(), org=org, name=known, created_by=by, created_at=0.0, **looking._asdict()
        )

    async def _existing(self, session: Session, new: SavedView) -> SavedView:
        known = await self._store.saved_views.named(session, new.org, new.page, new.name)
        if known is None or known.looking != new.looking:
            raise AlreadyExistsError(
                f"the page {new.page} already has a saved view {new.name!r} with other contents; remove it, "
                f"or choose another name"
            )
        return known

    async def _audit(self, session: Session, action: Action, view: SavedView) -> None:
        detail = {"name": view.name, **{name: str(text) for name, text in view.looking._asdict().items()}}
        entry = NewEntry(
            org=self._caller.org, actor=self._caller.name, action=action, subjects=(view.id,), detail=detail
        )
        await self._store.audit.append(session, [entry])
