"""A database with traps: every statement and every commit of a process passes through it.

It also reports what others cannot see: which runs a start requested, and how often a commit with an unknown
outcome turned out to be done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.crash.sink import Line
from tests.crash.trap import Trap
from tests.statements import does

from redrive.store.database import Database, OpenTransaction, Row, Session
from redrive.store.statement import Statement


class SessionSeam:
    def __init__(self, session: Session, trap: Trap, line: Line) -> None:
        self._session = session
        self._trap = trap
        self._line = line

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        name = does(statement.sqlite.name)
        self._trap.reach(name, "before")
        rows = await self._session.fetch(statement, parameters)
        self._trap.reach(name, "after")
        if name == "adopt" and rows:
            self._line.tell("adopted", runs=len(rows))
        return rows

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        name = does(statement.sqlite.name)
        self._tell_asked(name, rows)
        self._trap.reach(name, "before")
        found = await self._session.fetch_many(statement, rows)
        self._trap.reach(name, "after")
        if name == "settled":
            self._line.tell("resolved", written=_written(rows, found), open=len(rows) - _written(rows, found))
        return found

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._session.transaction() as session:
            watched = _Watched(session, self)
            yield watched
            for name in watched.names:
                self._trap.reach(name, "inside")
        for name in watched.names:
            self._trap.reach(name, "after")

    def enter(self, name: str, rows: Sequence[Any]) -> None:
        """Note the start of a statement in a transaction."""
        self._tell_asked(name, rows)
        self._trap.reach(name, "before")

    def _tell_asked(self, name: str, rows: Sequence[Any]) -> None:
        if name in ("enqueue", "enqueue_mixed"):
            self._line.tell("asked", runs={run.correlation_id: run.id for run in rows})


class Seam(SessionSeam):
    def __init__(self, database: Database, trap: Trap, line: Line) -> None:
        super().__init__(database, trap, line)
        self._database = database

    @property
    def in_memory(self) -> bool:
        return self._database.in_memory

    async def migrate(self) -> None:
        await self._database.migrate()

    def another(self) -> Database:
        return Seam(self._database.another(), self._trap, self._line)

    def tenant(self, org: str, seconds: float) -> Session:
        return SessionSeam(self._database.tenant(org, seconds), self._trap, self._line)

    async def enable_row_level_security(self) -> None:
        await self._database.enable_row_level_security()

    async def serve_only(self, org: str) -> None:
        await self._database.serve_only(org)

    def require_isolated(self, org: str) -> None:
        self._database.require_isolated(org)

    async def hint(self, queues: Sequence[str]) -> None:
        await self._database.hint(queues)

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        return self._database.listen(heard)

    async def wait_for_cancelled(self) -> None:
        await self._database.wait_for_cancelled()

    async def close(self) -> None:
        await self._database.close()


class _Watched(OpenTransaction):
    def __init__(self, session: Session, seam: SessionSeam) -> None:
        self._session = session
        self._seam = seam
        self.names: list[str] = []

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        self._enter(statement, ())
        return await self._session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        self._enter(statement, rows)
        return await self._session.fetch_many(statement, rows)

    def _enter(self, statement: Statement, rows: Sequence[Any]) -> None:
        name = does(statement.sqlite.name)
        self._seam.enter(name, rows)
        self.names.append(name)


def _written(changes: Sequence[Any], found: Sequence[Row]) -> int:
    """Count changes that are stored although no answer came: the token is theirs, and the run has moved."""
    known = {change.id: change for change in changes}
    return sum(
        token == known[run_id].token and (place != "leased" or epoch != known[run_id].epoch)
        for run_id, token, epoch, place in found
    )
