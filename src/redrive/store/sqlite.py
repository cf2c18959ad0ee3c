"""The SQLite database: a session over the whole file, its tables, its listeners, and sessions for tenants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import apsw

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import StoreError
from redrive.store.database import Session, check_tenant
from redrive.store.drain import ALIVE, live_processes, require_drained
from redrive.store.migration import CREATE_LEDGER, READ_LEDGER, Migration, pending
from redrive.store.sqlite_session import SqliteSession
from redrive.store.sqlite_tenant import SqliteTenant, TimedSession

LISTEN_INTERVAL, LOOK_INTERVAL = 0.025, 0.005


class SqliteDatabase(SqliteSession):
    def __init__(self, path: str, *, clock: Clock = SYSTEM_CLOCK, durable: bool = True) -> None:
        super().__init__(path, clock=clock, durable=durable)
        self._listeners: list[Callable[[str], None]] = []
        self._timed: dict[float, TimedSession] = {}

    def another(self) -> SqliteDatabase:
        if self.in_memory:
            return self
        return SqliteDatabase(self.path, clock=self._clock, durable=self._durable)

    def tenant(self, org: str, seconds: float) -> Session:
        """Return a session for the org on a connection that all orgs with this timeout share.

        An in-memory database has only one connection, and no timeout.
        """
        check_tenant(org, seconds)
        if self.in_memory:
            return self
        if seconds not in self._timed:
            self._timed[seconds] = TimedSession(
                self.path, clock=self._clock, durable=self._durable, seconds=seconds
            )
        return SqliteTenant(self._timed[seconds])

    async def enable_row_level_security(self) -> None:
        """Do nothing: SQLite has none, and a process that can read the file can read all of it."""

    async def serve_only(self, org: str) -> None:
        """Do nothing, for the same reason."""

    def require_isolated(self, org: str) -> None:
        """Do nothing, for the same reason."""

    async def migrate(self) -> None:
        async with self._turn:
            await self._call(lambda: self._all_or_nothing(self._migrate))

    async def hint(self, queues: Sequence[str]) -> None:
        """Call the listeners of this process; other processes notice that the file changes."""
        for heard in list(self._listeners):
            for queue in queues:
                heard(queue)

    @asynccontextmanager
    async def listen(self, heard: Callable[[str], None]) -> AsyncIterator[None]:
        self._listeners.append(heard)
        watch = None if self.in_memory else asyncio.create_task(self._watch(heard))
        try:
            yield
        finally:
            self._listeners.remove(heard)
            if watch is not None:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch

    async def wait_for_cancelled(self) -> None:
        """Do nothing: the next statement waits until a cancelled one has ended."""

    async def close(self) -> None:
        for session in self._timed.values():
            await session.close()
        await super().close()

    async def _watch(self, heard: Callable[[str], None]) -> None:
        """Report commits of other connections, which SQLite counts; reading the count is cheap."""
        before = None
        while True:
            written_at = self._written_at()
            with suppress(StoreError):
                async with self._turn:
                    version = await self._call(lambda: self._open().pragma("data_version"))
                if before is not None and version != before:
                    heard("")
                before = version
            await self._wait_for_write(written_at)

    async def _wait_for_write(self, written_at: tuple[int, int]) -> None:
        """Wait until the write-ahead log changes, at most LISTEN_INTERVAL.

        Checking the file is cheaper than querying SQLite, so an idle worker checks often. File times are
        coarse: two commits within milliseconds may look like one. While this connection writes, changes of
        the log say nothing about other connections.
        """
        if self._written_at() != written_at:
            await self._clock.sleep(LISTEN_INTERVAL)
            return
        for _ in range(round(LISTEN_INTERVAL / LOOK_INTERVAL)):
            await self._clock.sleep(LOOK_INTERVAL)
            if self._written_at() != written_at:
                return

    def _written_at(self) -> tuple[int, int]:
        try:
            log = os.stat(f"{self.path}-wal")  # noqa: PTH116 — a Path costs ten times as much
        except OSError:
            return 0, 0
        return log.st_mtime_ns, log.st_size

    def _migrate(self) -> None:
        connection = self._open()
        connection.execute(CREATE_LEDGER.replace("redrive.", ""))
        applied = [row[0] for row in connection.execute(READ_LEDGER.replace("redrive.", ""))]
        left = pending(applied)
        if any(migration.needs_drained_workers for migration in left):
            require_drained(self._fetch(live_processes().sqlite, ALIVE))
        for migration in left:
            self._apply(connection, migration)

    def _apply(self, connection: apsw.Connection, migration: Migration) -> None:
        entry = (migration.version, migration.name, self._clock.now())
        connection.execute("INSERT INTO migrations (version, name, applied_at) VALUES (?, ?, ?)", entry)
        for text in migration.for_sqlite():
            connection.execute(text)
