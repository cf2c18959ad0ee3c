"""Memberships: which users may act in which organizations, and as what."""

from __future__ import annotations

from redrive.model.identity import HOME, Member, Membership
from redrive.model.role import Role
from redrive.model.row import Row
from redrive.store.database import Session
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

_SQL = statements("memberships", Member)


class Roles(Row, frozen=True):
    """The roles of a user's active memberships: in some organization, and in the home one."""

    there: Role | None
    at_home: Role | None


class Memberships:
    def __init__(self, session: Session) -> None:
        self._session = session

    # Changing them; the row of the organization is locked before

    async def insert(self, session: Session, org: str, user_id: str, role: Role, by: str) -> bool:
        """False when they are a member."""
        parameters = {"org": org, "user_id": user_id, "role": role, "by": by}
        return bool(await session.fetch(_SQL["insert"], parameters))

    async def change(self, session: Session, org: str, user_id: str, role: Role, active: bool) -> None:
        parameters = {"org": org, "user_id": user_id, "role": role, "active": int(active)}
        await session.fetch(_SQL["change"], parameters)

    async def remove(self, session: Session, org: str, user_id: str) -> None:
        await session.fetch(_SQL["remove"], {"org": org, "user_id": user_id})

    async def other_owners(self, session: Session, org: str, user_id: str) -> int:
        """How many owners but for this one can act."""
        [(number,)] = await session.fetch(_SQL["other_owners"], {"org": org, "user_id": user_id})
        return int(number)

    async def owned_by(self, session: Session, user_id: str) -> list[str]:
        """The organizations of which this user is an active owner, by name."""
        return [row[0] for row in await session.fetch(_SQL["owned_by"], {"user_id": user_id})]

    # Looking

    async def find(
        self, org: str, user_id: str, name: str = "", session: Session | None = None
    ) -> Member | None:
        parameters = {"org": org, "id": user_id, "name": name}
        rows = await (session or self._session).fetch(_SQL["find"], parameters)
        return read_row(Member, rows[0]) if rows else None

    async def page(self, org: str, size: int, after: str) -> list[Member]:
        """By name, after this one."""
        rows = await self._session.fetch(_SQL["page"], {"org": org, "size": size, "after": after})
        return read_rows(Member, rows)

    async def roles(self, session: Session, user_id: str, org: str) -> Roles | None:
        """None when there is no such organization."""
        parameters = {"user_id": user_id, "org": org, "home": HOME}
        rows = await session.fetch(_SQL["roles"], parameters)
        return read_row(Roles, rows[0]) if rows else None

    async def standings(self, session: Session, user_id: str, most: int) -> list[Membership]:
        """The organizations that the user is an active member of, the home one first."""
        parameters = {"user_id": user_id, "home": HOME, "most": most}
        rows = await session.fetch(_SQL["standings"], parameters)
        return read_rows(Membership, rows)
