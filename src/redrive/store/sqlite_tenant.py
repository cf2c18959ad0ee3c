"""SQLite for requests: a connection and a thread of their own, and a limit to the time of a statement.

There is no second wall: whoever has the file has everything. What is interrupted is rolled back, and the
connection stays usable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from redrive.store.database import Database, Row, Session, out_of_time
from redrive.store.sqlite import BUSY_TIMEOUT_MS, SqliteDatabase
from redrive.store.statement import Statement

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


if TYPE_CHECKING:
    from redrive.store.sqlite_tenant import SqliteTenant


class SqliteOrg:
    in_memory = False

    def __init__(self, tenant: SqliteTenant) -> None:
        self._tenant = tenant
        self._loop: asyncio.AbstractEventLoop | None = None
        self._place = asyncio.Lock()

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._queued():
            return await self._tenant.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self._queued():
            return await self._tenant.fetch_many(statement, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._queued(), self._tenant.transaction() as session:
            yield session

    def _queued(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._place = loop, asyncio.Lock()
        return self._place

    def another(self) -> Database:
        return SqliteOrg(self._tenant.another())

    def tenant(self, org: str, seconds: float) -> Database:
        return self._tenant.tenant(org, seconds)

    async def migrate(self) -> None:
        await self._tenant.migrate()

    async def enable_row_level_security(self) -> None:
        await self._tenant.enable_row_level_security()

    async def hint(self, queues: Sequence[str]) -> None:
        await self._tenant.hint(queues)

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        return self._tenant.listen(heard)

    async def close(self) -> None:
        await self._tenant.close()
