"""The session over a user's connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from redrive.errors import InvalidValueError
from redrive.store.database import OpenTransaction, Row, Session
from redrive.store.joined.drivers import (
    AsyncpgDriver,
    Driver,
    PsycopgDriver,
    SqlalchemyDriver,
    SqlalchemySessionDriver,
)
from redrive.store.postgres_hint import channel_of
from redrive.store.statement import SqlQuery, Statement

_DRIVERS: Mapping[tuple[str, str], Callable[[Any], Driver]] = {
    ("asyncpg", "Connection"): AsyncpgDriver,
    ("asyncpg", "PoolConnectionProxy"): AsyncpgDriver,
    ("psycopg", "Connection"): partial(PsycopgDriver, is_async=False),
    ("psycopg", "AsyncConnection"): partial(PsycopgDriver, is_async=True),
    ("sqlalchemy", "Connection"): partial(SqlalchemyDriver, is_async=False),
    ("sqlalchemy", "Session"): partial(SqlalchemySessionDriver, is_async=False),
    ("sqlalchemy", "scoped_session"): partial(SqlalchemySessionDriver, is_async=False),
    ("sqlalchemy", "AsyncConnection"): partial(SqlalchemyDriver, is_async=True),
    ("sqlalchemy", "AsyncSession"): partial(SqlalchemySessionDriver, is_async=True),
    ("sqlalchemy", "async_scoped_session"): partial(SqlalchemySessionDriver, is_async=True),
}
"""Drivers by package and class name, so that no package is imported that the user has not imported."""

_SUPPORTED = (
    "an asyncpg Connection, a psycopg 3 Connection or AsyncConnection, "
    "or a SQLAlchemy 2 Connection, Session, AsyncConnection or AsyncSession"
)
_NOTIFY = SqlQuery("notify", "SELECT pg_catalog.pg_notify($1, $2)", ("channel", "queue"))


class _Hint(NamedTuple):
    channel: str
    queue: str


class JoinedSession(OpenTransaction):
    """A session that executes statements in the user's transaction."""

    def __init__(self, driver: Driver, schema: str) -> None:
        self._driver = driver
        self._schema = schema

    @property
    def is_async(self) -> bool:
        return self._driver.is_async

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the coroutine for an async connection, or run it and return its result for a sync one."""
        return coroutine if self.is_async else _result_at_once(coroutine)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        query = statement.postgres
        return await self._fetch_all(query, [query.arguments(parameters)])

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        query = statement.postgres
        return await self._fetch_all(query, [*map(query.reader, rows)])

    async def hint(self, queues: Sequence[str]) -> None:
        """Notify idle workers of new work. PostgreSQL sends notifications when the transaction commits."""
        channel = channel_of(self._schema)
        await self._fetch_all(_NOTIFY, [_Hint(channel, queue) for queue in dict.fromkeys(queues)])

    async def _fetch_all(self, query: SqlQuery, rows: Sequence[tuple[Any, ...]]) -> list[Row]:
        spelling = self._driver.spelling
        text = spelling.text(query, self._schema)
        if rows and query.batched:
            return _with_text_ids(await self._driver.fetch(text, spelling.values(query.columns(rows))))
        return _with_text_ids([found for values in rows for found in await self._driver.fetch(text, values)])


def _with_text_ids(rows: Sequence[Row]) -> list[Row]:
    """Convert run ids to text: every driver returns them as UUIDs."""
    return [tuple([value.hex if isinstance(value, UUID) else value for value in row]) for row in rows]


def joined_session(connection: object, database: Session) -> JoinedSession:
    schema = _schema_of(database)
    driver = _driver_of(connection)
    driver.check()
    return JoinedSession(driver, schema)


def _schema_of(database: Session) -> str:
    schema = getattr(database, "schema", None)
    if not isinstance(schema, str):
        raise InvalidValueError(
            "joining a transaction needs PostgreSQL: the transaction must be in the database that stores the "
            "runs; give the app the address of that database"
        )
    return schema


def _driver_of(connection: object) -> Driver:
    # Not type(): a tracing proxy reports the class of the wrapped connection only by __class__.
    for kind in connection.__class__.__mro__:
        driver = _DRIVERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if driver is not None:
            return driver(connection)
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidValueError(f"cannot join a transaction over {name}; pass {_SUPPORTED}")


def _result_at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("work over a sync connection must not await anything but that connection")
