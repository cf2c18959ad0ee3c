"""Schemas on PostgreSQL that tests reuse, because making one takes longer than most tests.

If a test changed only rows, the schema is emptied for the next test. It is dropped if the test changed more
(a table, a right, planner statistics) or may have left work running.

One connection does this, and has the catalogs cached after the first few tests. It runs in a thread, so that
a transaction that a test has left open can end meanwhile.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from redrive.store.postgres import PostgresDatabase

_STRUCTURE = """
WITH place AS (SELECT oid, xmin FROM pg_namespace WHERE nspname = %(name)s),
relation AS (SELECT oid, xmin FROM pg_class WHERE relnamespace = (SELECT oid FROM place)),
part (kind, id, version) AS (
    SELECT 'schema', oid, xmin FROM place
    UNION ALL SELECT 'role', oid, xmin FROM pg_authid WHERE starts_with(rolname, %(name)s)
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
"""Every change of a catalog writes a new version of a row, which names the transaction that made it."""

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
    """The rows that migrations have written, by table."""


class Schemas:
    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[_Schema] = []
        self._connection = psycopg.connect(url, autocommit=True)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """Lend a schema with empty tables, and yield its name."""
        schema = self._idle.pop() if self._idle else await self._made()
        yield schema.name
        await asyncio.to_thread(self._take_back, schema)

    async def _made(self) -> _Schema:
        name = f"test_{uuid.uuid4().hex}"
        database = PostgresDatabase(self._url, schema=name)
        await database.migrate()
        await database.close()
        return await asyncio.to_thread(self._described, name)

    def _described(self, name: str) -> _Schema:
        tables = [
            row[0]
            for row in self._fetch("SELECT tablename FROM pg_tables WHERE schemaname = %(name)s", name=name)
        ]
        seeds = {table: self._rows(name, table) for table in self._filled(name, tables)}
        return _Schema(name, self._structure(name), [table for table in tables if table not in seeds], seeds)

    def _take_back(self, schema: _Schema) -> None:
        if self._is_as_made(schema):
            self._empty(schema)
            self._idle.append(schema)
        else:
            self.drop(schema.name)

    def _is_as_made(self, schema: _Schema) -> bool:
        if self._fetch(_BUSY) != [(0,)] or self._structure(schema.name) != schema.structure:
            return False
        return all(self._rows(schema.name, table) == rows for table, rows in schema.seeds.items())

    def _empty(self, schema: _Schema) -> None:
        filled = self._filled(schema.name, schema.tables)
        if filled:
            tables = ", ".join(f"{schema.name}.{table}" for table in filled)
            self._connection.execute(f"TRUNCATE {tables}".encode())
            schema.structure = self._structure(schema.name)

    def _structure(self, name: str) -> str:
        return str(self._fetch(_STRUCTURE, name=name)[0][0])

    def _filled(self, name: str, tables: list[str]) -> list[str]:
        parts = [f"SELECT '{table}' WHERE EXISTS (SELECT FROM {name}.{table})" for table in tables]
        return [row[0] for row in self._fetch(" UNION ALL ".join(parts))]

    def _rows(self, name: str, table: str) -> str:
        row = f"CAST({table} AS text)"
        return str(self._fetch(f"SELECT string_agg({row}, ',' ORDER BY {row}) FROM {name}.{table}")[0][0])

    def _fetch(self, query: str, **parameters: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), parameters or None, prepare=True).fetchall()

    def drop(self, name: str) -> None:
        self._connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
        self._connection.execute(f"DROP ROLE IF EXISTS {name}_redrive_tenant".encode())

    def close(self) -> None:
        for schema in self._idle:
            self.drop(schema.name)
        self._connection.close()
