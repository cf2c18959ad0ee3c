"""Organizations. A transaction that changes the owners of one locks its row first."""

from __future__ import annotations

from redrive.errors import NotFoundError
from redrive.model.identity import Organization
from redrive.store.database import Row, Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

_SQL = statements("organizations", Organization)


class Organizations:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, name: str, title: str, by: str) -> Organization | None:
        """Create an organization; None if the name is taken."""
        rows = await session.fetch(_SQL["insert"], {"name": name, "title": title, "by": by})
        return read_row(Organization, rows[0]) if rows else None

    async def lock(self, session: Session, name: str) -> Organization:
        """Lock an organization until the transaction ends."""
        return _only(await session.fetch(_SQL["lock"], {"name": findable(name)}), name)

    async def get(self, name: str) -> Organization:
        return _only(await self._session.fetch(_SQL["get"], {"name": findable(name)}), name)

    async def sole(self) -> str | None:
        """The name of the only organization; None if there are several."""
        first, *others = await self.page(2, "")
        return None if others else first.name

    async def page(self, size: int, after: str) -> list[Organization]:
        """List organizations by name; only those after the name `after`."""
        rows = await self._session.fetch(_SQL["page"], {"size": size, "after": after})
        return read_rows(Organization, rows)


def _only(rows: list[Row], name: str) -> Organization:
    if not rows:
        raise NotFoundError(
            f"found no organization {name!r:.250}; an owner of the home organization can create it"
        )
    return read_row(Organization, rows[0])
