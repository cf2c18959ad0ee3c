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
from typing import Any, TypeVar

import apsw

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import StoreError, StoreUnavailableError
from redrive.store.database import OpenTransaction, Row, Session
from redrive.store.statement import SqlQuery, Statement

T = TypeVar("T")

MEMORY = ":memory:"
BUSY_TIMEOUT_MS = 10_000

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


class SqliteSession:
    def __init__(self, path: str, *, clock: Clock = SYSTEM_CLOCK, durable: bool = True) -> None:
        self.path = path
        self._clock = clock
        self._durable = durable
        self._connection: apsw.Connection | None = None
        self._thread: Executor | None = None if path == MEMORY else ThreadPoolExecutor(1, "redrive-sqlite")
        self._turn = asyncio.Lock()
        self._moment: float | None = None
        self._file: tuple[int, int] | None = None

    @property
    def in_memory(self) -> bool:
        return self._thread is None

    async def close(self) -> None:
        """Close the connection; the next statement opens another."""
        async with self._turn:
            await self._call(self._close)
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = ThreadPoolExecutor(1, "redrive-sqlite")
        self._turn = asyncio.Lock()  # the next event loop to use it may be another one

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._turn:
            return await self._call(lambda: self._fetch_alone(statement.sqlite, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
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
            self._prepare(connection)
            self._connection = connection
            self._file = _identity(self.path)
        elif self._file is not None and _identity(self.path) != self._file:
            raise StoreUnavailableError(
                f"the database {self.path} was removed or replaced while it was in use; what is written now "
                f"would be lost. Put it back, or start again"
            )
        return self._connection

    def _prepare(self, connection: apsw.Connection) -> None:
        """Set up what a subclass needs on each new connection."""

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


class _Transaction(OpenTransaction):
    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        session = self._session
        return await session._call(lambda: session._fetch(statement.sqlite, parameters))

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
        session = self._session
        return await session._call(lambda: session._fetch_many(statement.sqlite, rows))


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
