"""Schemas on PostgreSQL: one that a test has left as it was made is emptied, and serves the next test.

To make one takes much longer than most tests do. Where more has changed than rows (a table, a right, what the
planner knows), or somebody may still be at work when the test has ended, it is dropped instead.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg

from redrive.store.postgres import PostgresDatabase

_STRUCTURE = """
WITH place AS (SELECT oid, xmin FROM pg_namespace WHERE nspname = $1),
relation AS (SELECT oid, xmin FROM pg_class WHERE relnamespace = (SELECT oid FROM place)),
part (kind, id, version) AS (
    SELECT 'schema', oid, xmin FROM place
    UNION ALL SELECT 'role', oid, xmin FROM pg_authid WHERE starts_with(rolname, $1)
    UNION ALL SELECT 'relation', oid, xmin FROM relation
    UNION ALL SELECT 'column', attrelid, pg_attribute.xmin FROM pg_attribute JOIN relation ON oid = attrelid
    UNION ALL SELECT 'index', indexrelid, pg_index.xmin FROM pg_index JOIN relation ON oid = indrelid
    UNION ALL SELECT 'numbers', starelid, pg_statistic.xmin FROM pg_statistic JOIN relation ON oid = starelid
    UNION ALL SELECT 'trigger', oid, xmin FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM relation)
    UNION ALL SELECT 'policy', oid, xmin FROM pg_policy WHERE polrelid IN (SELECT oid FROM relation)
    UNION ALL SELECT 'constraint', oid, xmin FROM pg_constraint WHERE connamespace = (SELECT oid FROM place)
    UNION ALL SELECT 'function', oid, xmin FROM pg_proc WHERE pronamespace = (SELECT oid FROM place)
)
SELECT md5(string_agg(row, ',' ORDER BY row))
FROM (SELECT concat_ws(' ', kind, id, version) AS row FROM part) AS rows
"""
"""Every change in a catalog makes a new version of a row, which tells the transaction that has made it."""

_BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()
    AND datname = current_database()
"""


@dataclass
class _Schema:
    name: str
    structure: str
    tables: list[str]
    seeds: dict[str, str]
    """What migrations have written, by tables."""


class Schemas:
    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[_Schema] = []

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """The name of one with empty tables."""
        schema = self._idle.pop() if self._idle else await self._made()
        yield schema.name
        async with _connected(self._url) as connection:
            if await _is_as_made(connection, schema):
                await _empty(connection, schema)
                self._idle.append(schema)
            else:
                await drop(connection, schema.name)

    async def _made(self) -> _Schema:
        name = f"test_{uuid.uuid4().hex}"
        database = PostgresDatabase(self._url, schema=name)
        await database.migrate()
        await database.close()
        async with _connected(self._url) as connection:
            found = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", name)
            tables = [row[0] for row in found]
            seeds = {
                table: await _rows(connection, name, table)
                for table in await _filled(connection, name, tables)
            }
            others = [table for table in tables if table not in seeds]
            return _Schema(name, await connection.fetchval(_STRUCTURE, name), others, seeds)

    def close(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for schema in self._idle:
                connection.execute(f"DROP SCHEMA {schema.name} CASCADE")


async def drop(connection: Any, name: str) -> None:
    await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    await connection.execute(f"DROP ROLE IF EXISTS {name}_redrive_tenant")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _is_as_made(connection: Any, schema: _Schema) -> bool:
    if (
        await connection.fetchval(_BUSY)
        or await connection.fetchval(_STRUCTURE, schema.name) != schema.structure
    ):
        return False
    return all([await _rows(connection, schema.name, each) == rows for each, rows in schema.seeds.items()])


async def _empty(connection: Any, schema: _Schema) -> None:
    filled = await _filled(connection, schema.name, schema.tables)
    if filled:
        await connection.execute("TRUNCATE " + ", ".join(f"{schema.name}.{table}" for table in filled))
        schema.structure = await connection.fetchval(_STRUCTURE, schema.name)


async def _filled(connection: Any, name: str, tables: list[str]) -> list[str]:
    parts = [f"SELECT '{table}' WHERE EXISTS (SELECT FROM {name}.{table})" for table in tables]
    return [row[0] for row in await connection.fetch(" UNION ALL ".join(parts))]


async def _rows(connection: Any, name: str, table: str) -> str:
    text = (
        f"SELECT string_agg(CAST(each AS text), ',' ORDER BY CAST(each AS text)) FROM {name}.{table} AS each"
    )
    return str(await connection.fetchval(text))
