"""One-time tokens: what was put under one is given to whoever brings it first, and to nobody else."""

from __future__ import annotations

from redrive.model.row import Row
from redrive.store.database import Session
from redrive.store.rows import read_row
from redrive.store.statement import statements


class NewOneTime(Row, frozen=True):
    """`body` is text that may be sealed; `user_id` is whom it is about, so that it can be taken back."""

    hash: str
    kind: str
    body: str
    by: str
    seconds: float
    user_id: str | None = None


class Taken(Row, frozen=True):
    body: str
    user_id: str | None


_SQL = statements("one_time", Taken)


class OneTimeTokens:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, new: NewOneTime, session: Session | None = None) -> float:
        """When it expires."""
        rows = await (session or self._session).fetch(_SQL["insert"], new.asdict())
        return float(rows[0][0])

    async def take(self, kind: str, hash_: str, session: Session | None = None) -> Taken | None:
        """Exactly once: taking it removes it. None when it was taken, has expired or never was."""
        rows = await (session or self._session).fetch(_SQL["take"], {"kind": kind, "hash": hash_})
        return read_row(Taken, rows[0]) if rows else None

    async def user_of(self, kind: str, hash_: str, session: Session) -> str | None:
        """Whom it is for, without taking it."""
        rows = await session.fetch(_SQL["user_of"], {"hash": hash_, "kind": kind})
        return rows[0][0] if rows else None

    async def drop_of_user(self, session: Session, user_id: str) -> None:
        """Whatever links were handed out for this user open nothing any more."""
        await session.fetch(_SQL["drop_of_user"], {"user_id": user_id})

    async def drop_made_by(self, session: Session, user_name: str) -> None:
        """What this user has handed out to whomever."""
        await session.fetch(_SQL["drop_made_by"], {"by": user_name})

    async def drop_made_by_key(self, session: Session, org: str, name: str) -> None:
        """Other organizations may have a key of the same name."""
        await session.fetch(_SQL["drop_made_by_key"], {"org": org, "by": name})

    async def remove_expired(self, most: int) -> int:
        """Forget up to so many that are over; how many it were."""
        return len(await self._session.fetch(_SQL["remove_expired"], {"most": most}))
