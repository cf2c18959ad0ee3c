"""Migrating the tables in PostgreSQL, in the transaction of the given connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from redrive.store.drain import ALIVE, live_processes, require_drained
from redrive.store.migration import CREATE_LEDGER, READ_LEDGER, pending

TIMEOUT = 3600.0

_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock($1)"
_FIND_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
_FIND_LEDGER = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations'"
_FIND_TABLE = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = $2"
_ENTER = """INSERT INTO redrive.migrations (version, name, applied_at)
VALUES ($1, $2, CAST(extract(epoch FROM statement_timestamp()) AS double precision))"""

_HEARTBEATS = (("workers", "SHARE ROW EXCLUSIVE"), ("processors", "SHARE ROW EXCLUSIVE"))
_BUSY = (
    ("runs", "ACCESS EXCLUSIVE"),
    ("ready", "ACCESS EXCLUSIVE"),
    ("idle", "ACCESS EXCLUSIVE"),
    ("leases", "ACCESS EXCLUSIVE"),
    ("ended", "ACCESS EXCLUSIVE"),
    ("dead_letters", "SHARE ROW EXCLUSIVE"),
    ("dead_letter_counts", "SHARE ROW EXCLUSIVE"),
    ("audit", "SHARE ROW EXCLUSIVE"),
)
"""Tables that running workers use, in the order in which workers lock them."""

Qualified = Callable[[str], str]
"""Inserts the name of the schema into a statement."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def migrate(connection: Any, schema: str, qualified: Qualified) -> bool:
    """Apply the pending migrations; return whether there were any."""
    await connection.execute(_LOCK, _lock_key(schema), timeout=TIMEOUT)
    await _create_ledger(connection, schema, qualified)
    applied = [row[0] for row in await connection.fetch(qualified(READ_LEDGER))]
    left = pending(applied)
    if any(migration.needs_drained_workers for migration in left):
        await _lock(connection, schema, qualified, _HEARTBEATS)
        live = live_processes().postgres
        require_drained(await connection.fetch(qualified(live.text), *live.arguments(ALIVE)))
    if left:
        await _lock(connection, schema, qualified, _BUSY)
    for migration in left:
        await connection.execute(qualified(_ENTER), migration.version, migration.name)
        for text in migration.for_postgres():
            await connection.execute(qualified(text), timeout=TIMEOUT)
    return bool(left)


async def _lock(
    connection: Any, schema: str, qualified: Qualified, tables: Sequence[tuple[str, str]]
) -> None:
    """Lock the existing tables until the end of the transaction.

    Locking each table only when it changes could cause deadlocks with workers.
    """
    for table, mode in tables:
        if await connection.fetch(_FIND_TABLE, schema, table):
            text = f"LOCK TABLE redrive.{table} IN {mode} MODE"
            await connection.execute(qualified(text), timeout=TIMEOUT)


async def _create_ledger(connection: Any, schema: str, qualified: Qualified) -> None:
    """Create the schema and the ledger. IF NOT EXISTS would need the CREATE privilege even if they exist."""
    if not await connection.fetch(_FIND_SCHEMA, schema):
        await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
    if not await connection.fetch(_FIND_LEDGER, schema):
        await connection.execute(qualified(CREATE_LEDGER))


def _lock_key(schema: str) -> int:
    digest = sha256(f"redrive migrations {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
