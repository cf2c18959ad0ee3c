"""Sessions of signed-in users. The browser has the token; the database stores only its hash."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.identity import HOME, SessionLine, SignInKind
from redrive.model.row import Row
from redrive.store.database import Session
from redrive.store.memberships import Roles
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements

MAX_LISTED = 100


class NewSessionRow(Row, frozen=True):
    """A new session; `lifetime` is in seconds from now."""

    hash: str
    id: str
    user_id: str
    org: str
    kind: SignInKind
    lifetime: float


class KnownSession(NamedTuple):
    """A session that is valid at `now`, with the user's role in its organization at that time."""

    line: SessionLine
    user_id: str
    user_name: str
    roles: Roles
    now: float


class EndedSession(Row, frozen=True):
    id: str
    user_id: str
    org: str


_SQL = statements("sessions", SessionLine, EndedSession)


class Sessions:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, new: NewSessionRow) -> SessionLine:
        return read_row(SessionLine, (await session.fetch(_SQL["insert"], new.asdict()))[0])

    async def known(self, hash_: str, idle: float, session: Session | None = None) -> KnownSession | None:
        """Look up a session; None if it does not exist or has expired, was idle for `idle` seconds, or its
        user is disabled."""
        parameters = {"hash": hash_, "idle": idle, "home": HOME}
        rows = await (session or self._session).fetch(_SQL["known"], parameters)
        if not rows:
            return None
        *line, user_id, user_name, there, at_home, now = rows[0]
        return KnownSession(
            line=read_row(SessionLine, line),
            user_id=user_id,
            user_name=user_name,
            roles=read_row(Roles, (there, at_home)),
            now=now,
        )

    async def touch(self, hash_: str, pause: float) -> None:
        """Record that the session was used now; write at most once in `pause` seconds."""
        await self._session.fetch(_SQL["touch"], {"hash": hash_, "pause": pause})

    async def move(self, session: Session, hash_: str, org: str) -> bool:
        """Switch a session to another organization; False if it has ended in the meantime."""
        return bool(await session.fetch(_SQL["move"], {"hash": hash_, "org": org}))

    async def of_user(self, user_id: str, idle: float) -> list[SessionLine]:
        """List the sessions of a user, newest first."""
        parameters = {"user_id": user_id, "idle": idle, "most": MAX_LISTED}
        rows = await self._session.fetch(_SQL["of_user"], parameters)
        return read_rows(SessionLine, rows)

    async def end(self, session: Session, hash_: str) -> EndedSession | None:
        rows = await session.fetch(_SQL["end"], {"hash": hash_})
        return read_row(EndedSession, rows[0]) if rows else None

    async def end_one(self, session: Session, user_id: str, session_id: str) -> bool:
        return bool(await session.fetch(_SQL["end_one"], {"user_id": user_id, "id": session_id}))

    async def end_others(self, session: Session, user_id: str, session_id: str = "") -> int:
        """End all sessions of a user except `session_id`; return how many ended."""
        parameters = {"user_id": user_id, "id": session_id}
        return len(await session.fetch(_SQL["end_others"], parameters))

    async def remove_expired(self, most: int) -> int:
        """Remove up to `most` expired sessions; return their number."""
        return len(await self._session.fetch(_SQL["remove_expired"], {"most": most}))
