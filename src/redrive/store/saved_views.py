"""Saved views: named queries of pages; each belongs to an org."""

from __future__ import annotations

from redrive.model.saved_view import SavedView
from redrive.store.database import Session
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

_SQL = statements("saved_views", SavedView)


class SavedViewStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert_if_new(self, session: Session, new: SavedView) -> SavedView | None:
        """Insert a view at the database's current time; None if the page has a view with this name."""
        rows = await session.fetch(_SQL["insert"], new.asdict())
        return read_row(SavedView, rows[0]) if rows else None

    async def named(self, session: Session, org: str, page: str, name: str) -> SavedView | None:
        rows = await session.fetch(_SQL["named"], {"org": org, "page": page, "name": name})
        return read_row(SavedView, rows[0]) if rows else None

    async def list(self, org: str, page: str | None = None) -> list[SavedView]:
        """List views, sorted by page and name."""
        rows = await self._session.fetch(_SQL["list"], {"org": org, "page": page})
        return read_rows(SavedView, rows)

    async def number(self, session: Session, org: str) -> int:
        [[number]] = await session.fetch(_SQL["number"], {"org": org})
        return int(number)

    async def remove(self, session: Session, org: str, view_id: str) -> SavedView | None:
        """Remove a view and return it; None if it does not exist."""
        rows = await session.fetch(_SQL["remove"], {"org": org, "id": view_id})
        return read_row(SavedView, rows[0]) if rows else None
