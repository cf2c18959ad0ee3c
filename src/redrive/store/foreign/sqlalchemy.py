"""Connections and sessions of SQLAlchemy 2, sync and async, over any driver for PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redrive.errors import InvalidValueError
from redrive.store.database import Row
from redrive.store.foreign.driver import settled
from redrive.store.foreign.spelling import SQLALCHEMY, named

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
