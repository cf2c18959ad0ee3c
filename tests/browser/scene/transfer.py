"""Copies a SQLite database into PostgreSQL, row by row: both have the same tables."""

from __future__ import annotations

from pathlib import Path

import apsw
import asyncpg

from redrive.app import Redrive
from redrive.settings import Settings


async def transfer(path: Path, url: str, schema: str) -> None:
    app = Redrive(url, settings=Settings(schema=schema), log=False)
    await app.open()
    await app.close()
    target, source = await asyncpg.connect(url), apsw.Connection(str(path))
    try:
        async with target.transaction():
            # Counts that triggers maintain are copied like everything else.
            await target.execute("SET LOCAL session_replication_role = replica")
            for table in await _tables(target, schema):
                await _copy(source, target, schema, table)
    finally:
        source.close()
        await target.close()


async def _tables(target: asyncpg.Connection, schema: str) -> list[str]:
    rows = await target.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    return [row[0] for row in rows if row[0] != "migrations"]


async def _copy(source: apsw.Connection, target: asyncpg.Connection, schema: str, table: str) -> None:
    wanted = "SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2"
    there = {row[0] for row in await target.fetch(wanted, schema, table)}
    columns = [row[1] for row in source.execute(f"PRAGMA table_info({table})") if row[1] in there]
    if not columns:
        return
    await target.execute(f"DELETE FROM {schema}.{table}")
    rows = source.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    await target.copy_records_to_table(table, schema_name=schema, columns=columns, records=rows)
