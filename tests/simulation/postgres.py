"""PostgreSQL on virtual time: the simulation replaces now() and clock_timestamp().

A schema that PostgreSQL searches before pg_catalog has functions of these names, which read a table with one
row. All of this is in a separate database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
from psycopg import sql
from tests.servers import PostgresServer
from tests.simulation.clock import ProcessClock

from redrive.store.database import Row, Session
from redrive.store.postgres import PostgresDatabase
from redrive.store.statement import Statement

_FUNCTIONS = """
CREATE SCHEMA virtual;
CREATE TABLE virtual.moment (at timestamptz NOT NULL);
INSERT INTO virtual.moment VALUES (to_timestamp(0));
CREATE FUNCTION virtual.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM virtual.moment';
CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM virtual.moment';
"""
_SET = "UPDATE virtual.moment SET at = to_timestamp($1)"
_TABLES = [
    "definitions",
    "run_inputs",
    "ready",
    "idle",
    "leases",
    "ended",
    "steps",
    "attempts",
    "run_events",
    "dead_letters",
    "queues",
    "breakers",
    "limits",
    "workers",
    "dead_letter_notes",
    "dead_letter_dependencies",
    "dead_letter_counts",
    "dead_letter_figures",
    "failure_groups",
    "failure_group_versions",
    "replay_operations",
    "replays",
    "audit_heads",
    "audit",
    "processors",
    "tallies",
]


@contextmanager
def virtual_database(server: PostgresServer) -> Iterator[str]:
    """Yield the address of a database whose clock the simulation sets."""
    with server.new_database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            path = sql.SQL("ALTER DATABASE {} SET search_path = virtual, pg_catalog, public")
            connection.execute(path.format(sql.Identifier(connection.info.dbname)))
            connection.execute(_FUNCTIONS)
        yield url


class VirtualPostgres:
    """A PostgreSQL database that receives the time before each statement."""

    in_memory = False

    def __init__(self, url: str, clock: ProcessClock) -> None:
        self._url = url
        self._clock = clock
        self._database = PostgresDatabase(url, clock=clock)
        self._event_bus: Any = None
        self._told = 0.0

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        await self._tell()
        return await self._database.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        await self._tell()
        return await self._database.fetch_many(statement, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        await self._tell()
        async with self._database.transaction() as session:
            yield session

    async def migrate(self) -> None:
        """Migrate, and start with empty tables, without the previous history."""
        await self._database.migrate()
        if self._event_bus is not None:
            return
        self._event_bus = await asyncpg.connect(self._url)
        await self._event_bus.execute(f"TRUNCATE {', '.join(f'redrive.{table}' for table in _TABLES)}")

    def another(self) -> VirtualPostgres:
        return self

    def tenant(self, _org: str, _seconds: float) -> VirtualPostgres:
        return self

    async def enable_row_level_security(self) -> None:
        await self._database.enable_row_level_security()

    async def serve_only(self, org: str) -> None:
        await self._database.serve_only(org)

    def require_isolated(self, org: str) -> None:
        self._database.require_isolated(org)

    async def hint(self, queues: Sequence[str]) -> None:
        await self._database.hint(queues)

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        return self._database.listen(heard)

    async def wait_for_cancelled(self) -> None:
        await self._database.wait_for_cancelled()

    async def close(self) -> None:
        await self._event_bus.close()
        await self._database.close()
        await asyncio.sleep(0)  # asyncpg closes its transports in the next iteration of the loop

    async def _tell(self) -> None:
        now = self._clock.now()
        if now != self._told:
            self._told = now
            await self._event_bus.execute(_SET, now)
