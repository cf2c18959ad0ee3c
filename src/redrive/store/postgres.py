"""PostgreSQL through asyncpg: a small pool of connections, each statement prepared once.

Behind a transaction pooler (`pooler=True`), statements are not kept prepared, and notifications from other
processes are not received.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import InvalidValueError, IsolationError, StoreError
from redrive.store.database import check_tenant
from redrive.store.postgres_connections import IDLE_TIMEOUT_MS, Connections
from redrive.store.postgres_failure import is_race
from redrive.store.postgres_hint import MAX_NAME_LENGTH, NOTIFY, Announcer, Listener, channel_of, stop
from redrive.store.postgres_migration import migrate
from redrive.store.postgres_session import BEGIN, PostgresSession
from redrive.store.postgres_tenant import CONNECTIONS, PooledTenant, PostgresTenant
from redrive.store.row_level_security import (
    administrator_statements,
    enable_row_level_security,
    grant_new_tables,
    tenant_role,
)

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
        self._url = url
        self._sole_org: str | None = None
        self._of_tenants = self._tenant_connections({"role": tenant_role(schema)})
        self._listeners: list[Callable[[str], None]] = []
        self._announcer = Announcer(self._notify, clock)

    def another(self) -> PostgresDatabase:
        return self._copy()

    def tenant(self, org: str, seconds: float) -> PostgresTenant:
        check_tenant(org, seconds)
        self.require_isolated(org)
        session = PooledTenant if self._pooler else PostgresTenant
        role = tenant_role(self.schema) if self._sole_org is None else None
        return session(self._of_tenants, self.schema, self._texts, org, seconds, role)

    def _tenant_connections(self, settings: Mapping[str, str]) -> Connections:
        return Connections(self._url, pooler=self._pooler, most=CONNECTIONS, settings=settings)

    async def enable_row_level_security(self) -> None:
        """Enable it; try again if another process does the same concurrently."""
        for attempt in range(_MAX_RACES):
            try:
                async with self._transaction() as connection:
                    await self._call(
                        enable_row_level_security, connection, self.schema, self._connections.place
                    )
                if self._sole_org is not None:
                    await self._serve(None, {"role": tenant_role(self.schema)})
                return
            except StoreError as error:
                if attempt + 1 == _MAX_RACES or not is_race(error.__cause__):
                    raise

    async def serve_only(self, org: str) -> None:
        await self._serve(org, {})

    async def _serve(self, sole_org: str | None, settings: Mapping[str, str]) -> None:
        await self._of_tenants.close()
        self._sole_org, self._of_tenants = sole_org, self._tenant_connections(settings)

    async def administrator_statements(self) -> list[str]:
        """List the statements that an administrator has to run, because this database user may not."""
        async with self._borrowed() as connection:
            return await self._call(administrator_statements, connection, self.schema)

    def require_isolated(self, org: str) -> None:
        if self._sole_org not in (None, org):
            raise IsolationError(
                f"this server started without row-level security, for the organization {self._sole_org!r} "
                f"only. To serve {org!r:.250} too, ask an administrator of the database to run what "
                f"`redrive migrate --print-sql` prints, then restart the server",
                statements=(),
            )

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

    async def wait_for_cancelled(self) -> None:
        await self._connections.wait_for_cancelled()

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
