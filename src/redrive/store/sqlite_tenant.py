"""SQLite for the requests of one organization: a timeout per statement, and fair scheduling.

Requests have a separate connection and thread, so that workers never wait for them. SQLite has no row-level
security: only the filters in the statements isolate organizations. A statement that exceeds the timeout is
interrupted and rolled back, and the connection stays usable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, TypeVar

import apsw

from redrive.clock import Clock
from redrive.store.database import Row, Session, out_of_time
from redrive.store.sqlite_session import BUSY_TIMEOUT_MS, SqliteSession
from redrive.store.statement import Statement

T = TypeVar("T")

STEPS = 10_000
"""Instructions of SQLite's virtual machine between two checks of the clock: less than a millisecond."""


class TimedSession(SqliteSession):
    """A connection with a timeout for its statements; the database that created it closes it."""

    def __init__(self, path: str, *, clock: Clock, durable: bool, seconds: float) -> None:
        super().__init__(path, clock=clock, durable=durable)
        self._seconds = seconds
        self._deadline = 0.0

    def _translated(self, work: Callable[[], T]) -> T:
        self._deadline = self._clock.monotonic() + self._seconds
        return super()._translated(lambda: self._in_time(work))

    def _in_time(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except apsw.InterruptError as error:
            raise out_of_time(self._seconds) from error

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(min(BUSY_TIMEOUT_MS, ceil(self._seconds * 1000)))
        connection.set_progress_handler(self._is_too_late, STEPS)

    def _is_too_late(self) -> bool:
        return self._clock.monotonic() > self._deadline


class SqliteTenant:
    """One organization's access to the shared connection: it runs one statement at a time."""

    def __init__(self, session: TimedSession) -> None:
        self._session = session
        self._loop: asyncio.AbstractEventLoop | None = None
        self._place = asyncio.Lock()

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._queued():
            return await self._session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self._queued():
            return await self._session.fetch_many(statement, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._queued(), self._session.transaction() as session:
            yield session

    def _queued(self) -> asyncio.Lock:
        """Return the lock of the running event loop: an application may be closed and reused on another."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._place = loop, asyncio.Lock()
        return self._place
