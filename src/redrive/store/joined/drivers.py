"""Drivers: how statements are executed over the connection of a user, one class per kind of connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from redrive.errors import InvalidValueError
from redrive.store.database import Row
from redrive.store.joined.spelling import ASYNCPG, PSYCOPG, SQLALCHEMY, Spelling, named


class Driver(Protocol):
    spelling: Spelling
    is_async: bool

    def check(self) -> None:
        """Raise InvalidValueError when there is clearly no transaction to join."""

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Suspends only when the connection is async."""


async def settled(value: Any) -> Any:
    """What a method has given, be it sync or async: drivers have two connections with the same methods."""
    return await value if isawaitable(value) else value


class AsyncpgDriver:
    spelling = ASYNCPG
    is_async = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self) -> None:
        if not self._connection.is_in_transaction():
            raise InvalidValueError(
                "the asyncpg connection is in no transaction, so there is nothing to join; "
                "do it inside of `async with connection.transaction():`"
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
        """Without autocommit, psycopg begins a transaction with the first statement."""
        if self._connection.autocommit and self._connection.info.transaction_status.name == "IDLE":
            inside = "async with" if self.is_async else "with"
            raise InvalidValueError(
                f"the psycopg connection has autocommit on and is in no transaction, so there is nothing to "
                f"join; do it inside of `{inside} connection.transaction():`"
            )

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        cursor = self._cursor()
        try:
            await settled(cursor.execute(text, named(values)))
            return await settled(cursor.fetchall()) if cursor.description else []
        finally:
            await settled(cursor.close())

    def _cursor(self) -> Any:
        """A plain one: the user's own factories may give other rows, or want other placeholders."""
        from psycopg import AsyncCursor, Cursor

        kind: Any = AsyncCursor if self.is_async else Cursor
        return kind(self._connection, row_factory=_tuples)


def _tuples(_cursor: object) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple


_AT_ONCE = {"stream_results": False}


class SqlalchemyDriver:
    """For a connection. It begins a transaction with the first statement, if there is none."""

    spelling = SQLALCHEMY

    def __init__(self, given: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self._given = given

    def check(self) -> None:
        _check(self._given)

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        from sqlalchemy import text as clause

        connection = await self._connection()
        result = await settled(
            connection.execute(clause(text), named(values), execution_options=_AT_ONCE),
        )
        return list(result) if result.returns_rows else []

    async def _connection(self) -> Any:
        return self._given


class SqlalchemySessionDriver(SqlalchemyDriver):
    def check(self) -> None:
        """A session has its connection from the first statement on; it is looked at then."""

    async def _connection(self) -> Any:
        connection = await settled(self._given.connection())
        _check(connection)
        return connection


def _check(connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise InvalidValueError(
            f"the SQLAlchemy connection leads to {connection.dialect.name}; "
            f"joining a transaction needs one to the PostgreSQL database where the runs are kept"
        )
    if getattr(connection, "sync_connection", connection).connection.dbapi_connection.autocommit:
        raise InvalidValueError(
            "the SQLAlchemy connection has the isolation level AUTOCOMMIT, so there is no transaction to "
            "join; use one without it, inside of `with engine.begin() as connection:`"
        )
