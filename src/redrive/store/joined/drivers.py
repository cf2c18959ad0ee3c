"""Drivers, which execute statements over a user's connection: one class per kind of connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from redrive.errors import InvalidValueError
from redrive.store.database import Row
from redrive.store.joined.spelling import ASYNCPG, PSYCOPG, SQLALCHEMY, Spelling, by_name


class Driver(Protocol):
    spelling: Spelling
    is_async: bool

    def check(self) -> None:
        """Raise InvalidValueError if the connection certainly has no transaction to join."""

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Execute a statement; suspends only if the connection is async."""


async def resolve(value: Any) -> Any:
    """Return the result of a sync or async method: some drivers have both kinds of connection."""
    return await value if isawaitable(value) else value


class AsyncpgDriver:
    spelling = ASYNCPG
    is_async = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self) -> None:
        if not self._connection.is_in_transaction():
            raise InvalidValueError(
                "the asyncpg connection has no open transaction to join; "
                "make the call inside `async with connection.transaction():`"
            )

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        rows: list[Row] = await self._connection.fetch(text, *values)
        return rows


class PsycopgDriver:
    spelling = PSYCOPG

    def __init__(self, connection: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self._connection = connection

    def check(self) -> None:
        """Reject autocommit without a transaction. Otherwise psycopg begins one with the first statement."""
        if self._connection.autocommit and self._connection.info.transaction_status.name == "IDLE":
            inside = "async with" if self.is_async else "with"
            raise InvalidValueError(
                f"the psycopg connection is in autocommit mode and has no open transaction to join; "
                f"make the call inside `{inside} connection.transaction():`"
            )

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        cursor = self._cursor()
        try:
            await resolve(cursor.execute(text, by_name(values)))
            return await resolve(cursor.fetchall()) if cursor.description else []
        finally:
            await resolve(cursor.close())

    def _cursor(self) -> Any:
        """Open a plain cursor: the user's factories may return other rows or expect other placeholders."""
        from psycopg import AsyncCursor, Cursor

        kind: Any = AsyncCursor if self.is_async else Cursor
        return kind(self._connection, row_factory=_tuples)


def _tuples(_cursor: object) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple


_AT_ONCE = {"stream_results": False}


class SqlalchemyDriver:
    """Drives a SQLAlchemy connection, which begins a transaction with its first statement."""

    spelling = SQLALCHEMY

    def __init__(self, given: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self._given = given

    def check(self) -> None:
        _check(self._given)

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        from sqlalchemy import text as clause

        connection = await self._connection()
        result = await resolve(
            connection.execute(clause(text), by_name(values), execution_options=_AT_ONCE),
        )
        return list(result) if result.returns_rows else []

    async def _connection(self) -> Any:
        return self._given


class SqlalchemySessionDriver(SqlalchemyDriver):
    def check(self) -> None:
        """Do nothing yet: a session gets its connection with the first statement, which checks it."""

    async def _connection(self) -> Any:
        connection = await resolve(self._given.connection())
        _check(connection)
        return connection


def _check(connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise InvalidValueError(
            f"the SQLAlchemy connection uses {connection.dialect.name}; "
            f"joining a transaction needs a connection to the PostgreSQL database that stores the runs"
        )
    if getattr(connection, "sync_connection", connection).connection.dbapi_connection.autocommit:
        raise InvalidValueError(
            "the SQLAlchemy connection has the isolation level AUTOCOMMIT, so it has no transaction to join; "
            "use a connection without it, inside `with engine.begin() as connection:`"
        )
