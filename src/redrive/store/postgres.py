"""PostgreSQL through asyncpg: a small pool of connections, each statement prepared once.

Behind a transaction pooler (`pooler=True`), statements are not kept prepared, and notifications from other
processes are not received.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import InvalidValueError, StoreError
from redrive.store.database import check_tenant
from redrive.store.postgres_connections import IDLE_TIMEOUT_MS, Connections
from redrive.store.postgres_failure import is_race
from redrive.store.postgres_hint import MAX_NAME_LENGTH, NOTIFY, Announcer, Listener, channel_of, stop
from redrive.store.postgres_migration import migrate
from redrive.store.postgres_session import BEGIN, PostgresSession
from redrive.store.postgres_tenant import CONNECTIONS, PooledTenant, PostgresTenant
from redrive.store.row_level_security import enable_row_level_security, grant_new_tables, tenant_role

_BEGIN_POOLED = f"{BEGIN}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}"
_MAX_RACES = 5


class PostgresDatabase(PostgresSession):
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
        pool = Connections(url, pooler=pooler, most=connections)
        super().__init__(pool, _checked(schema), _BEGIN_POOLED if pooler else BEGIN)
        self._copy = partial(
            PostgresDatabase, url, schema=schema, pooler=pooler, connections=connections, clock=clock
        )
        self._channel = channel_of(schema)
        self._pooler = pooler
        self._clock = clock
        settings = {"role": tenant_role(schema)}
        self._of_tenants = Connections(url, pooler=pooler, most=CONNECTIONS, settings=settings)
        self._listeners: list[Callable[[str], None]] = []
        self._announcer = Announcer(self._notify, clock)

    def another(self) -> PostgresDatabase:
        return self._copy()

    def tenant(self, org: str, seconds: float) -> PostgresTenant:
        check_tenant(org, seconds)
        session = PooledTenant if self._pooler else PostgresTenant
        return session(self._of_tenants, self.schema, self._texts, org, seconds)

    async def enable_row_level_security(self) -> None:
        """Enable it; try again if another process does the same concurrently."""
        for attempt in range(_MAX_RACES):
            try:
                async with self._transaction() as connection:
                    await self._call(
                        enable_row_level_security, connection, self.schema, self._connections.place
                    )
                return
            except StoreError as error:
                if attempt + 1 == _MAX_RACES or not is_race(error.__cause__):
                    raise

    async def migrate(self) -> None:
        async with self._transaction() as connection:
            if await self._call(migrate, connection, self.schema, self._qualified):
                await self._call(grant_new_tables, connection, self.schema)

    async def hint(self, queues: Sequence[str]) -> None:
        """Notify the workers of this object immediately, and those of other processes in the background."""
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
        await self._of_tenants.close()

    async def _notify(self, queues: list[str]) -> None:
        async with self._borrowed() as connection:
            await self._call(connection.fetch, NOTIFY, self._channel, queues)


def _checked(schema: str) -> str:
    if not schema or "\0" in schema or len(schema.encode()) > MAX_NAME_LENGTH:
        raise InvalidValueError(f"the schema name {schema!r} must have 1 to {MAX_NAME_LENGTH} bytes")
    return schema
