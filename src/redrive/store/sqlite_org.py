"""SQLite for the requests of one org, among those of others: they all share one connection.

Of an org's statements one at a time stands in the queue for it. So orgs take turns, however much one of them
asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from redrive.store.database import Database, Row, Session
from redrive.store.statement import Statement

if TYPE_CHECKING:
    from redrive.store.sqlite_tenant import SqliteTenant


class SqliteOrg:
    in_memory = False

    def __init__(self, tenant: SqliteTenant) -> None:
        self._tenant = tenant
        self._loop: asyncio.AbstractEventLoop | None = None
        self._place = asyncio.Lock()

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self._queued():
            return await self._tenant.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self._queued():
            return await self._tenant.fetch_many(statement, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        async with self._queued(), self._tenant.transaction() as session:
            yield session

    def _queued(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._place = loop, asyncio.Lock()
        return self._place

    def another(self) -> Database:
        return SqliteOrg(self._tenant.another())

    def tenant(self, org: str, seconds: float) -> Database:
        return self._tenant.tenant(org, seconds)

    async def migrate(self) -> None:
        await self._tenant.migrate()

    async def enable_row_level_security(self) -> None:
        await self._tenant.enable_row_level_security()

    async def hint(self, queues: Sequence[str]) -> None:
        await self._tenant.hint(queues)

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        return self._tenant.listen(heard)

    async def close(self) -> None:
        await self._tenant.close()
