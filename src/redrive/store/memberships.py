"""Memberships: the organizations that users may act in, and their roles there."""

from __future__ import annotations

from redrive.model.identity import HOME, Member, Membership
from redrive.model.role import Role
from redrive.model.row import Row
from redrive.store.database import Session
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

_SQL = statements("memberships", Member)


class Roles(Row, frozen=True):
    """The roles of a user in one organization and in the home organization, if active there."""

    there: Role | None
    at_home: Role | None


class Memberships:
    def __init__(self, session: Session) -> None:
        self._session = session

    # Changing; the caller has locked the row of the organization

    async def insert(self, session: Session, org: str, user_id: str, role: Role, by: str) -> bool:
        """Add a member; False if the user is a member already."""
        parameters = {"org": org, "user_id": user_id, "role": role, "by": by}
        return bool(await session.fetch(_SQL["insert"], parameters))

    async def change(self, session: Session, org: str, user_id: str, role: Role, active: bool) -> None:
        parameters = {"org": org, "user_id": user_id, "role": role, "active": int(active)}
        await session.fetch(_SQL["change"], parameters)

    async def remove(self, session: Session, org: str, user_id: str) -> None:
        await session.fetch(_SQL["remove"], {"org": org, "user_id": user_id})

    async def other_owners(self, session: Session, org: str, user_id: str) -> int:
        """Count the active owners other than this user."""
        [(number,)] = await session.fetch(_SQL["other_owners"], {"org": org, "user_id": user_id})
        return int(number)

    async def owned_by(self, session: Session, user_id: str) -> list[str]:
        """Return the organizations that this user actively owns, sorted by name."""
        return [row[0] for row in await session.fetch(_SQL["owned_by"], {"user_id": user_id})]

    # Reading

    async def find(
        self, org: str, user_id: str, name: str = "", session: Session | None = None
    ) -> Member | None:
        parameters = {"org": org, "id": user_id, "name": name}
        rows = await (session or self._session).fetch(_SQL["find"], parameters)
        return read_row(Member, rows[0]) if rows else None

    async def page(self, org: str, size: int, after: str) -> list[Member]:
        """List members by name; only those after the name `after`."""
        rows = await self._session.fetch(_SQL["page"], {"org": org, "size": size, "after": after})
        return read_rows(Member, rows)

    async def roles(self, session: Session, user_id: str, org: str) -> Roles | None:
        """Return the roles of a user; None if the organization does not exist."""
        parameters = {"user_id": user_id, "org": org, "home": HOME}
        rows = await session.fetch(_SQL["roles"], parameters)
        return read_row(Roles, rows[0]) if rows else None

    async def standings(self, session: Session, user_id: str, most: int) -> list[Membership]:
        """Return the user's active memberships, the home organization first."""
        parameters = {"user_id": user_id, "home": HOME, "most": most}
        rows = await session.fetch(_SQL["standings"], parameters)
        return read_rows(Membership, rows)
