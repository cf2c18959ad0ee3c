"""SQLite for requests: a connection and a thread of their own, and a limit to the time of a statement.

There is no second wall: whoever has the file has everything. What is interrupted is rolled back, and the
connection stays usable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import TypeVar

import apsw

from redrive.store.database import Database
from redrive.store.limit import out_of_time
from redrive.store.sqlite import BUSY_TIMEOUT_MS, SqliteDatabase

T = TypeVar("T")

STEPS = 10_000
"""Of SQLite's machine, between two looks at the clock: less than a millisecond."""


class SqliteTenant(SqliteDatabase):
    """The same file over a connection of its own, for statements that may take so many seconds."""

    is_alone = False
    """Nobody else has the database that it belongs to."""

    def __init__(self, base: SqliteDatabase, seconds: float) -> None:
        super().__init__(base.path, clock=base._clock, durable=base._durable)
        self._base = base
        self._seconds = seconds
        self._deadline = 0.0

    def another(self) -> SqliteTenant:
        view = SqliteTenant(self._base.another(), self._seconds)
        view.is_alone = True
        return view

    def tenant(self, org: str, seconds: float) -> Database:
        return self._base.tenant(org, seconds)

    async def hint(self, queues: Sequence[str]) -> None:
        await self._base.hint(queues)

    @asynccontextmanager
    async def listen(self, heard: Callable[[str], None]) -> AsyncIterator[None]:
        async with self._base.listen(heard):
            yield

    async def close(self) -> None:
        """Others use it too: the database that it belongs to closes it."""
        if self.is_alone:
            await self.end()
            await self._base.close()

    async def end(self) -> None:
        await super().close()

    def _translated(self, work: Callable[[], T]) -> T:
        self._deadline = self._clock.monotonic() + self._seconds
        return super()._translated(lambda: self._in_time(work))

    def _in_time(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except apsw.InterruptError as error:
            raise out_of_time(self._seconds) from error

    def _prepared(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(min(BUSY_TIMEOUT_MS, ceil(self._seconds * 1000)))
        connection.set_progress_handler(self._is_too_late, STEPS)

    def _is_too_late(self) -> bool:
        return self._clock.monotonic() > self._deadline
