"""Statements over a pool of connections to PostgreSQL, each on its own or several in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, TypeVar

from redrive.errors import StoreError
from redrive.store.database import OpenTransaction, Row, Session
from redrive.store.postgres_connections import RELEASE_TIMEOUT, Connections, Loan
from redrive.store.postgres_migration import quoted
from redrive.store.statement import SqlQuery, Statement

T = TypeVar("T")

MAX_TEXTS = 2_000
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"

Turn = AbstractAsyncContextManager[object]
NO_TURN: Turn = nullcontext()
"""A statement outside a transaction does not share its connection."""


class PostgresSession:
    def __init__(
        self, connections: Connections, schema: str, begin: str = BEGIN, texts: dict[str, str] | None = None
    ) -> None:
        self.schema = schema
        self._connections = connections
        self._begin = begin
        self._texts = {} if texts is None else texts

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._borrowed() as connection:
            return await self._fetch(connection, statement.postgres, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
        async with self._borrowed() as connection:
            return await self._fetch_many(connection, statement.postgres, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._transaction() as connection:
            yield _Transaction(self, connection)

    def _borrowed(self) -> Loan:
        return self._connections.borrowed()

    def _call(self, ask: Callable[..., Awaitable[T]], *values: Any) -> Awaitable[T]:
        return self._connections.call(ask, *values)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        loan = self._borrowed()
        async with loan as connection:
            try:
                await self._call(connection.execute, self._begin)
                yield connection
                await self._commit(connection)
            except BaseException:
                try:
                    await _finished(self._roll_back(connection))
                finally:
                    loan.is_settled = True
                raise

    async def _commit(self, connection: Any) -> None:
        # If the caller ignored a failed statement, PostgreSQL answers COMMIT with ROLLBACK, not an error.
        if await self._call(connection.execute, "COMMIT") != "COMMIT":
            raise StoreError(
                f"{self._connections.place} did not commit: an earlier statement of the transaction failed"
            )

    async def _roll_back(self, connection: Any) -> None:
        """Roll back; close the connection if the server does not confirm it."""
        if connection.is_closed():
            return
        rolled_back = False
        try:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(RELEASE_TIMEOUT):
                    await self._call(connection.execute, "ROLLBACK")
                rolled_back = True
        finally:
            if not rolled_back:
                self._connections.throw_away(connection)

    async def _fetch(
        self, connection: Any, query: SqlQuery, parameters: Mapping[str, Any], turn: Turn = NO_TURN
    ) -> list[Row]:
        values: Sequence[Any] = query.arguments(parameters)
        if query.batched:
            values = query.columns([query.arguments(parameters)])
        async with turn:
            return await self._call(connection.fetch, self._qualified(query.text), *values)

    async def _fetch_many(
        self, connection: Any, query: SqlQuery, rows: Sequence[Any], turn: Turn = NO_TURN
    ) -> list[Row]:
        """Execute once with arrays, or once per row in one implicit transaction."""
        text, values = self._qualified(query.text), [*map(query.reader, rows)]
        if not query.batched:
            async with turn:
                return await self._call(connection.fetchmany, text, values)
        columns = query.columns(values)
        async with turn:
            return await self._call(connection.fetch, text, *columns)

    def _qualified(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) >= MAX_TEXTS:  # composed queries are unlimited in number
                self._texts.clear()
            known = self._texts[text] = text.replace("redrive.", f"{quoted(self.schema)}.")
        return known


class _Transaction(OpenTransaction):
    """Sends statements one at a time, in call order; prepares the values of the next one while it waits."""

    def __init__(self, session: PostgresSession, connection: Any) -> None:
        self._session = session
        self._connection = connection
        self._turn = asyncio.Lock()

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        return await self._session._fetch(self._connection, statement.postgres, parameters, self._turn)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not rows:
            return []
        return await self._session._fetch_many(self._connection, statement.postgres, rows, self._turn)


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Finish the work even if the caller is cancelled: an abandoned statement would keep its locks."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
