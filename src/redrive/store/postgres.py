"""PostgreSQL through asyncpg: a small pool of connections, each statement prepared once.

A transaction pooler may stand in between (`pooler=True`): then no statement is kept prepared, and hints of
other processes are not heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import InvalidValueError, StoreError
from redrive.store.database import Row, Session
from redrive.store.postgres_connections import IDLE_TIMEOUT_MS, RELEASE_TIMEOUT, Connections
from redrive.store.postgres_hint import LONGEST_NAME, NOTIFY, Announcer, Listener, channel_of, stop
from redrive.store.postgres_migration import migrate, quoted
from redrive.store.statement import Query, Statement

MOST_TEXTS = 2_000

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_POOLED = f"{_BEGIN}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}"


class PostgresDatabase:
    in_memory = False

    def __init__(
        self,
        url: str,
        *,
        schema: str = "redrive",
        pooler: bool = False,
        connections: int = 4,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._copy = partial(
            PostgresDatabase, url, schema=schema, pooler=pooler, connections=connections, clock=clock
        )
        self.schema = _checked(schema)
        self._channel = channel_of(schema)
        self._pooler = pooler
        self._clock = clock
        self._connections = Connections(url, pooler=pooler, most=connections)
        self._begin = _BEGIN_POOLED if pooler else _BEGIN
        self._texts: dict[str, str] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._announcer = Announcer(self._notify, clock)

    def another(self) -> PostgresDatabase:
        return self._copy()

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._connections.borrowed() as connection:
            return await self._fetch(connection, statement.postgres, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
        async with self._connections.borrowed() as connection:
            return await self._fetch_many(connection, statement.postgres, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._transaction() as connection:
            yield _Transaction(self, connection)

    async def migrate(self) -> None:
        async with self._transaction() as connection:
            await self._connections.asked(migrate, connection, self.schema, self._qualified)

    async def hint(self, queues: Sequence[str]) -> None:
        """Workers of this object are told at once, those of others in the background."""
        for heard in list(self._listeners):
            for queue in queues:
                heard(queue)
        self._announcer.announce(queues)

    @asynccontextmanager
    async def listen(self, heard: Callable[[str], None]) -> AsyncIterator[None]:
        listener = Listener(self._connections.single, self._channel, heard, self._clock)
        task = None if self._pooler else asyncio.create_task(listener.run())
        self._listeners.append(heard)
        try:
            yield
        finally:
            self._listeners.remove(heard)
            if task is not None:
                await stop(task)

    async def close(self) -> None:
        await self._announcer.close()
        await self._connections.close()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        async with self._connections.borrowed() as connection:
            try:
                await self._connections.asked(connection.execute, self._begin)
                yield connection
                await self._commit(connection)
            except BaseException:
                await _finished(self._roll_back(connection))
                raise

    async def _commit(self, connection: Any) -> None:
        # PostgreSQL answers ROLLBACK, not an error, when a statement has failed that nobody minded.
        if await self._connections.asked(connection.execute, "COMMIT") != "COMMIT":
            raise StoreError(f"{self._connections.place} did not commit: a statement before had failed")

    async def _roll_back(self, connection: Any) -> None:
        """A connection that does not confirm it is thrown away."""
        rolled_back = False
        try:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await self._connections.asked(connection.execute, "ROLLBACK")
                rolled_back = True
        finally:
            if not rolled_back:
                self._connections.throw_away(connection)

    async def _fetch(self, connection: Any, query: Query, parameters: Mapping[str, Any]) -> list[Row]:
        values: Sequence[Any] = query.arguments(parameters)
        if query.batched:
            values = query.columns([query.arguments(parameters)])
        return await self._connections.asked(connection.fetch, self._qualified(query.text), *values)

    async def _fetch_many(self, connection: Any, query: Query, rows: Sequence[Any]) -> list[Row]:
        """One execution with arrays, or one for each row: PostgreSQL makes one transaction of these."""
        text, values = self._qualified(query.text), [*map(query.reader, rows)]
        if query.batched:
            return await self._connections.asked(connection.fetch, text, *query.columns(values))
        return await self._connections.asked(connection.fetchmany, text, values)

    async def _notify(self, queues: list[str]) -> None:
        async with self._connections.borrowed() as connection:
            await self._connections.asked(connection.fetch, NOTIFY, self._channel, queues)

    def _qualified(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) >= MOST_TEXTS:  # those of queries are as many as people think of
                self._texts.clear()
            known = self._texts[text] = text.replace("redrive.", f"{quoted(self.schema)}.")
        return known


class _Transaction:
    """Statements inside of the open transaction."""

    def __init__(self, database: PostgresDatabase, connection: Any) -> None:
        self._database = database
        self._connection = connection

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._database._fetch(self._connection, statement.postgres, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
        return await self._database._fetch_many(self._connection, statement.postgres, rows)


def _checked(schema: str) -> str:
    if not schema or "\0" in schema or len(schema.encode()) > LONGEST_NAME:
        raise InvalidValueError(f"the name of the schema, {schema!r}, must have 1 to {LONGEST_NAME} bytes")
    return schema


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Cancelled, it is finished nevertheless: a statement that is left alone keeps its locks."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
