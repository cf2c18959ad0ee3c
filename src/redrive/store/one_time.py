"""One-time tokens: the value stored with a token is returned once, to the first caller that presents it."""

from __future__ import annotations

from redrive.model.row import Row
from redrive.store.database import Session
from redrive.store.rows import read_row
from redrive.store.statement import statements


class NewOneTime(Row, frozen=True):
    """`body` is text, possibly encrypted. `user_id` is the user it is for, so that it can be revoked."""

    hash: str
    kind: str
    body: str
    by: str
    seconds: float
    user_id: str | None = None


class UsedToken(Row, frozen=True):
    body: str
    user_id: str | None


_SQL = statements("one_time", UsedToken)


class OneTimeTokens:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, new: NewOneTime, session: Session | None = None) -> float:
        """Insert a token; return when it expires."""
        rows = await (session or self._session).fetch(_SQL["insert"], new.asdict())
        return float(rows[0][0])

    async def take(self, kind: str, hash_: str, session: Session | None = None) -> UsedToken | None:
        """Remove a token and return its value; None if it was taken before, has expired or never existed."""
        rows = await (session or self._session).fetch(_SQL["take"], {"kind": kind, "hash": hash_})
        return read_row(UsedToken, rows[0]) if rows else None

    async def user_of(self, kind: str, hash_: str, session: Session) -> str | None:
        """Return the user that a token is for, without taking it."""
        rows = await session.fetch(_SQL["user_of"], {"hash": hash_, "kind": kind})
        return rows[0][0] if rows else None

    async def drop_of_user(self, session: Session, user_id: str) -> None:
        """Revoke all tokens for this user, such as sign-in links."""
        await session.fetch(_SQL["drop_of_user"], {"user_id": user_id})

    async def drop_made_by(self, session: Session, user_name: str) -> None:
        """Revoke all tokens that this user created, for any user."""
        await session.fetch(_SQL["drop_made_by"], {"by": user_name})

    async def drop_made_by_key(self, session: Session, org: str, name: str) -> None:
        """Revoke all tokens that this API key created. Key names are unique only within an org."""
        await session.fetch(_SQL["drop_made_by_key"], {"org": org, "by": name})

    async def remove_expired(self, most: int) -> int:
        """Remove up to `most` expired tokens; return their number."""
        return len(await self._session.fetch(_SQL["remove_expired"], {"most": most}))
