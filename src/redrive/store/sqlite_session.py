"""SQLite through apsw: one file in WAL mode, one connection, one thread that waits for the disk.

Several processes may use one file; a writer waits for other writers. Every commit is on disk before it is
reported, unless `durable` is False. The path `:memory:` is for tests: the database lasts as long as its one
connection, and everything runs on the calling thread.

A database that is open during a fork and used in the child may be corrupted. So the connection is closed
before a fork, and opened again afterwards in each process that needs it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import apsw

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import DuplicateRowError, StoreError, StoreUnavailableError
from redrive.forking import Pause, join_forks, never_finalize
from redrive.store.database import OpenTransaction, Row, Session
from redrive.store.disk_thread import DiskThread
from redrive.store.statement import SqlQuery, Statement

T = TypeVar("T")

MEMORY = ":memory:"
BUSY_TIMEOUT_MS = 10_000
CACHE_KIB = 16_000
"""By default, SQLite keeps 2 MB of pages, and writes those of a batch of dead letters several times."""

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
_DUPLICATE = (apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE)
_open_at_fork: set[tuple[int, int] | None] = set()
"""The files that were open in the parent when this process was forked."""
_ADVICE = {
    apsw.BusyError: "another process keeps it locked",
    apsw.FullError: "the disk is full; free some space, and work resumes automatically",
    apsw.CantOpenError: "check that its directory exists and that this user can write to it",
    apsw.ReadOnlyError: "the file is read-only for this user; check its permissions",
}


class SqliteSession:
    def __init__(self, path: str, *, clock: Clock = SYSTEM_CLOCK, durable: bool = True) -> None:
        self.path = path
        self._clock = clock
        self._durable = durable
        self._connection: apsw.Connection | None = None
        self._thread: DiskThread | None = None if path == MEMORY else DiskThread()
        self._turn = asyncio.Lock()
        self._moment: float | None = None
        self._file: tuple[int, int] | None = None
        self._pause: Pause | None = None
        join_forks(self)

    def before_fork(self) -> None:
        if self._thread is not None:
            self._pause = self._thread.pause(self._close_unless_in_use)

    def after_fork_in_parent(self) -> None:
        if self._pause is not None:
            self._pause.end()
            self._pause = None

    def after_fork_in_child(self) -> None:
        self._turn, self._pause = asyncio.Lock(), None
        if self.in_memory:
            return
        if self._connection is not None:
            never_finalize(self._connection)
            _open_at_fork.add(self._file)
        self._connection, self._moment, self._thread = None, None, DiskThread()

    @property
    def in_memory(self) -> bool:
        return self._thread is None

    async def close(self) -> None:
        """Close the connection; the next statement opens a new one."""
        async with self._turn:
            await self._call(self._close)
        if self._thread is not None:
            self._thread = DiskThread()
        self._turn = asyncio.Lock()  # the database may be used next on another event loop

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
        """Run the work on the disk thread. If the caller is cancelled, the work still finishes."""
        if self._thread is None:
            return self._translated(work)
        try:
            return await self._thread.submit(lambda: self._translated(work))
        except asyncio.CancelledError:
            await self._thread.finish()
            raise

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except _UNAVAILABLE as error:
            advice = _ADVICE.get(type(error), "try again")
            raise StoreUnavailableError(f"cannot use the database {self.path}: {error}; {advice}") from error
        except apsw.Error as error:
            kind = DuplicateRowError if getattr(error, "extendedresult", 0) in _DUPLICATE else StoreError
            raise kind(
                f"the database {self.path} reported an error: {type(error).__name__}: {error}"
            ) from error

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            if not self.in_memory:
                self._require_not_inherited()
                _create_private(self.path)
            connection = apsw.Connection(self.path)
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._use_wal(connection)
            connection.pragma("synchronous", "full" if self._durable else "off")
            connection.pragma("cache_size", -CACHE_KIB)
            self._prepare(connection)
            self._connection = connection
            self._file = _identity(self.path)
        elif self._file is not None and _identity(self.path) != self._file:
            raise StoreUnavailableError(
                f"the database {self.path} was removed or replaced while it was in use, so writes would be "
                f"lost. Restore the file, or restart the application"
            )
        return self._connection

    def _require_not_inherited(self) -> None:
        if _open_at_fork and _identity(self.path) in _open_at_fork:
            raise StoreError(
                f"this process was forked during a transaction on the database {self.path}, and SQLite "
                f"cannot use the file in both processes. Fork before the transaction or after it, or start a "
                f"new process instead (multiprocessing: the start method 'spawn')"
            )

    def _prepare(self, connection: apsw.Connection) -> None:
        """Set up what a subclass needs on each new connection."""

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Switch to WAL mode. SQLite does not wait for other processes that do the same, so retry."""
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
        """Lock before a write reads the time, which must not be earlier than the data that it reads."""
        if query.timed and query.text.startswith(("UPDATE", "INSERT", "DELETE")):
            return self._all_or_nothing(lambda: self._fetch(query, parameters))
        return self._fetch(query, parameters)

    def _fetch_many(self, query: SqlQuery, rows: Sequence[Any]) -> list[Row]:
        values = self._values(query, rows)
        if query.then is None:
            return list(self._open().executemany(query.text, values))
        execute, answers = self._open().execute, []
        for first, second in zip(values, self._values(query.then, rows), strict=True):
            answer = list(execute(query.text, first))
            if answer:
                execute(query.then.text, second)
            answers += answer
        return answers

    def _values(self, query: SqlQuery, rows: Sequence[Any]) -> list[tuple[Any, ...]]:
        read = query.reader
        if query.timed:
            now = self._now()
            return [(now, *read(row)) for row in rows]
        return [read(row) for row in rows]

    def _now(self) -> float:
        """Return the current time: the start of the transaction, as on PostgreSQL, if one is open."""
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
        # Some errors, such as a full disk, have already rolled it back.
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _close_unless_in_use(self) -> None:
        if self._connection is not None and not self._connection.in_transaction:
            with suppress(apsw.Error):
                self._close()

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
    """Return the device and inode of a file; None if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 — called for every statement
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _create_private(path: str) -> None:
    """Create the file with payloads readable by its owner only. SQLite gives its WAL file the same mode."""
    with suppress(OSError):  # if this fails, opening the file reports the error
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
