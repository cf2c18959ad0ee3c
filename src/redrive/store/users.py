"""Users: the people who sign in. They exist across organizations; memberships define where they may act."""

from __future__ import annotations

from redrive.model.identity import Identity, User
from redrive.store.database import Row, Session
from redrive.store.rows import read_row
from redrive.store.statement import statements

_SQL = statements("users", User)


class Users:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, user_id: str, name: str, org: str, by: str) -> User | None:
        """Create a user; None if the name is taken."""
        parameters = {"id": user_id, "name": name, "org": org, "by": by}
        return _first(await session.fetch(_SQL["insert"], parameters))

    async def named(self, name: str, session: Session | None = None) -> User | None:
        return _first(await (session or self._session).fetch(_SQL["named"], {"name": name}))

    async def locked_by_name(self, session: Session, name: str) -> User | None:
        found = await self.named(name, session)
        return None if found is None else await self.lock(session, found.id)

    async def get(self, user_id: str, session: Session | None = None) -> User | None:
        return _first(await (session or self._session).fetch(_SQL["get"], {"id": user_id}))

    async def lock(self, session: Session, user_id: str) -> User | None:
        """Lock a user until the transaction ends. Lock organizations before users."""
        return _first(await session.fetch(_SQL["lock"], {"id": user_id}))

    async def identified(self, identity: Identity) -> User | None:
        return _first(await self._session.fetch(_SQL["identified"], identity._asdict()))

    async def identify(self, session: Session, user_id: str, identity: Identity) -> User | None:
        """Link a user to an identity; None if the user or the identity is linked already."""
        return _first(await session.fetch(_SQL["identify"], {"id": user_id, **identity._asdict()}))

    async def set_password(self, session: Session, user_id: str, password: str) -> None:
        await session.fetch(_SQL["set_password"], {"id": user_id, "password": password})

    async def renew_password_if_same(self, user_id: str, before: str, password: str) -> None:
        """Store a newer hash of the same password, unless the password has changed in the meantime."""
        parameters = {"id": user_id, "before": before, "password": password}
        await self._session.fetch(_SQL["renew_password_if_same"], parameters)

    async def disable(self, session: Session, user_id: str) -> bool:
        """Disable a user; False if the user was disabled already."""
        return bool(await session.fetch(_SQL["disable"], {"id": user_id}))

    async def enable(self, session: Session, user_id: str) -> bool:
        return bool(await session.fetch(_SQL["enable"], {"id": user_id}))

    async def adopt(self, session: Session, user_id: str, org: str) -> None:
        """Make an organization responsible for an account, and remove its password."""
        await session.fetch(_SQL["adopt"], {"id": user_id, "org": org})


def _first(rows: list[Row]) -> User | None:
    return read_row(User, rows[0]) if rows else None
