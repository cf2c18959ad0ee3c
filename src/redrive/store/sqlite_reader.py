"""Read-only access to SQLite: it never creates a missing file or changes an existing one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from redrive.errors import NotFoundError
from redrive.store.database import Database
from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_session import BUSY_TIMEOUT_MS, _identity

SYNCHRONOUS = ("off", "normal", "full", "extra")


class SqliteCondition(NamedTuple):
    """The condition of a database file. `synchronous` is the value that an application with this
    configuration uses.

    free_bytes  free space inside the file, which is reused before the file grows
    mode        the permissions of the file, such as 0o600
    """

    version: str
    journal: str
    synchronous: str
    bytes: int
    free_bytes: int
    log_bytes: int
    mode: int


class SqliteReader(SqliteDatabase):
    async def condition(self) -> SqliteCondition:
        async with self._turn:
            return await self._call(self._condition)

    def _condition(self) -> SqliteCondition:
        connection = self._open()
        page = int(connection.pragma("page_size"))
        file = Path(self.path)
        return SqliteCondition(
            version=apsw.sqlite_lib_version(),
            journal=str(connection.pragma("journal_mode")),
            synchronous=SYNCHRONOUS[int(connection.pragma("synchronous"))],
            bytes=page * int(connection.pragma("page_count")),
            free_bytes=page * int(connection.pragma("freelist_count")),
            log_bytes=_size(file.with_name(f"{file.name}-wal")),
            mode=file.stat().st_mode & 0o777,
        )

    def another(self) -> SqliteReader:
        return SqliteReader(self.path, clock=self._clock, durable=self._durable)

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._file = _identity(self.path)
            if self._file is None:
                raise NotFoundError(
                    f"there is no database {self.path}; run the command in its directory, or pass "
                    f"--set database_url=…; `redrive migrate` creates a database"
                )
            self._connection = self._looking()
        return super()._open()

    def _looking(self) -> apsw.Connection:
        connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("synchronous", "full" if self._durable else "off")
        connection.pragma("query_only", True)
        return connection


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0


def reading(database: Database) -> Database:
    """Return the database over separate, read-only connections.

    If the file does not exist, the first statement raises NotFoundError. An in-memory database has only one
    connection, and is returned as it is.
    """
    if isinstance(database, SqliteDatabase) and not database.in_memory:
        return SqliteReader(database.path, clock=database._clock, durable=database._durable)
    return database.another()


def place_of(database: Database) -> str:
    """Return the location of a database for messages: a file, or host and name; without secrets."""
    if isinstance(database, SqliteDatabase):
        return database.path
    connections = getattr(database, "_connections", None)
    return "PostgreSQL" if connections is None else str(connections.place)
