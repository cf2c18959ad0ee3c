"""SQLite through apsw: one file in WAL mode, one connection, one thread that waits for the disk.

Several processes may use one file; whoever writes waits for the others. Every commit is on disk before it is
reported, unless `durable` is False. The path `:memory:` is for tests: it lives with its one connection,
and everything happens on the calling thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import StoreError, StoreUnavailableError
from redrive.store.database import Database, Row, Session, check_tenant
from redrive.store.migration import CREATE_LEDGER, READ_LEDGER, Migration, pending
from redrive.store.statement import SqlQuery, Statement

if TYPE_CHECKING:
    from redrive.store.sqlite_tenant import SqliteTenant

T = TypeVar("T")

MEMORY = ":memory:"
BUSY_TIMEOUT_MS = 10_000
LISTEN_INTERVAL = 0.025

_UNAVAILABLE = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.InterruptError,
)
_ADVICE = {
    apsw.BusyError: "another process keeps it locked",
    apsw.FullError: "the disk is full; free some space, work goes on by itself",
    apsw.CantOpenError: "it cannot be opened; does its folder exist, and may this user write there?",
    apsw.ReadOnlyError: "it is read-only for this user",
}


class SqliteDatabase:
    def __init__(self, path: str, *, clock: Clock = SYSTEM_CLOCK, durable: bool = True) -> None:
        self.path = path
        self._clock = clock
        self._durable = durable
        self._connection: apsw.Connection | None = None
        self._thread: Executor | None = None if path == MEMORY else ThreadPoolExecutor(1, "redrive-sqlite")
        self._turn = asyncio.Lock()
        self._moment: float | None = None
        self._file: tuple[int, int] | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._tenants: dict[float, SqliteTenant] = {}

    @property
    def in_memory(self) -> bool:
        return self._thread is None

    def another(self) -> SqliteDatabase:
        if self.in_memory:
            return self
        return SqliteDatabase(self.path, clock=self._clock, durable=self._durable)

    def tenant(self, org: str, seconds: float) -> Database:
        """For all orgs the same connection and thread, which hold nobody else up, and the time limit.

        In memory there is only this one, without a limit.
        """
        from redrive.store.sqlite_tenant import SqliteOrg, SqliteTenant  # it imports this module

        check_tenant(org, seconds)
        if self.in_memory:
            return self
        if seconds not in self._tenants:
            self._tenants[seconds] = SqliteTenant(self, seconds)
        return SqliteOrg(self._tenants[seconds])

    async def enable_row_level_security(self) -> None:
        """SQLite has none: whoever has the file has everything."""

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._turn:
            return await self._call(lambda: self._fetch_alone(statement.sqlite, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self._turn:
            return await self._call(
                lambda: self._all_or_nothing(lambda: self._fetch_many(statement.sqlite, rows))
            )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._turn:
            try:
                await self._call(self._begin)
                yield _Transaction(self)
                await self._call(self._commit)
            except BaseException:
                await self._call(self._roll_back)
                raise

    async def migrate(self) -> None:
        async with self._turn:
            await self._call(lambda: self._all_or_nothing(self._migrate))

    async def hint(self, queues: Sequence[str]) -> None:
        """Workers of this process; those of others see that the file has changed."""
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

    async def close(self) -> None:
        for tenant in self._tenants.values():
            await tenant.end()
        async with self._turn:
            await self._call(self._close)
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = ThreadPoolExecutor(1, "redrive-sqlite")
        self._turn = asyncio.Lock()  # the next event loop to use it may be another one

    async def _watch(self, heard: Callable[[str], None]) -> None:
        """SQLite counts the commits of other connections; asking for the number is cheap."""
        before = None
        while True:
            with suppress(StoreError):
                async with self._turn:
                    version = await self._call(lambda: self._open().pragma("data_version"))
                if before is not None and version != before:
                    heard("")
                before = version
            await self._clock.sleep(LISTEN_INTERVAL)

    async def _call(self, work: Callable[[], T]) -> T:
        """Do the work where it may wait for the disk. Cancelled, it is finished nevertheless."""
        if self._thread is None:
            return self._translated(work)
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._translated, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait({future})
            raise

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except _UNAVAILABLE as error:
            advice = _ADVICE.get(type(error), "trying again may help")
            raise StoreUnavailableError(f"cannot use the database {self.path}: {error}; {advice}") from error
        except apsw.Error as error:
            raise StoreError(f"the database {self.path} refused: {type(error).__name__}: {error}") from error

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            if not self.in_memory:
                _create_private(self.path)
            connection = apsw.Connection(self.path)
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._use_wal(connection)
            connection.pragma("synchronous", "full" if self._durable else "off")
            self._prepared(connection)
            self._connection = connection
            self._file = _identity(self.path)
        elif self._file is not None and _identity(self.path) != self._file:
            raise StoreUnavailableError(
                f"the database {self.path} was removed or replaced while it was in use; what is written now "
                f"would be lost. Put it back, or start again"
            )
        return self._connection

    def _prepared(self, connection: apsw.Connection) -> None:
        """What a connection needs besides."""

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Where others do so in the same moment, SQLite does not wait for them by itself."""
        for _ in range(BUSY_TIMEOUT_MS // 50):
            with suppress(apsw.BusyError):
                connection.pragma("journal_mode", "wal")
                return
            self._clock.pause(0.05)
        connection.pragma("journal_mode", "wal")

    def _fetch(self, query: SqlQuery, parameters: Mapping[str, Any]) -> list[Row]:
        values = query.arguments(parameters)
        return list(self._open().execute(query.text, (self._now(), *values) if query.timed else values))

    def _fetch_alone(self, query: SqlQuery, parameters: Mapping[str, Any]) -> list[Row]:
        """A write waits for its lock first: the moment must not lie before what it then reads."""
        if query.timed and query.text.startswith(("UPDATE", "INSERT", "DELETE")):
            return self._all_or_nothing(lambda: self._fetch(query, parameters))
        return self._fetch(query, parameters)

    def _fetch_many(self, query: SqlQuery, rows: Sequence[Any]) -> list[Row]:
        read = query.reader
        if query.timed:
            now = self._now()
            return list(self._open().executemany(query.text, [(now, *read(row)) for row in rows]))
        return list(self._open().executemany(query.text, [read(row) for row in rows]))

    def _now(self) -> float:
        """One and the same for a whole transaction, as on PostgreSQL."""
        return self._clock.now() if self._moment is None else self._moment

    def _all_or_nothing(self, work: Callable[[], T]) -> T:
        self._begin()
        try:
            result = work()
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        return result

    def _begin(self) -> None:
        self._open().execute("BEGIN IMMEDIATE")
        self._moment = self._clock.now()

    def _commit(self) -> None:
        self._open().execute("COMMIT")
        self._moment = None

    def _roll_back(self) -> None:
        self._moment = None
        # A full disk, for one, has already rolled it back.
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _migrate(self) -> None:
        connection = self._open()
        connection.execute(CREATE_LEDGER.replace("redrive.", ""))
        applied = [row[0] for row in connection.execute(READ_LEDGER.replace("redrive.", ""))]
        for migration in pending(applied):
            self._apply(connection, migration)

    def _apply(self, connection: apsw.Connection, migration: Migration) -> None:
        for text in migration.for_sqlite():
            connection.execute(text)
        entry = (migration.version, migration.name, self._clock.now())
        connection.execute("INSERT INTO migrations (version, name, applied_at) VALUES (?, ?, ?)", entry)


class _Transaction:
    """Statements inside of the open transaction."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        database = self._database
        return await database._call(lambda: database._fetch(statement.sqlite, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        database = self._database
        return await database._call(lambda: database._fetch_many(statement.sqlite, rows))


def _identity(path: str) -> tuple[int, int] | None:
    """Which file it is; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 — asked for every statement
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _create_private(path: str) -> None:
    """The file holds payloads: only its owner may read it. SQLite gives its companions the same rights."""
    with suppress(OSError):  # if it cannot be made, opening it will say why
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
