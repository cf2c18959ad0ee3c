"""All rows of all tables of a database, to check that nothing has changed."""

from __future__ import annotations

from typing import Any

from tests.store.build import ask

from redrive.app import Redrive
from redrive.parts import parts_of
from redrive.store.postgres import PostgresDatabase

SEEN = {("api_keys", "last_used_at"), ("sessions", "seen_at")}
"""Columns that a mere sign-in changes."""

Rows = dict[str, list[dict[str, Any]]]

_ON_POSTGRES = (
    "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = :schema ORDER BY table_name, ordinal_position"
)
_ON_SQLITE = (
    "SELECT found.name, col.name FROM sqlite_master AS found, pragma_table_info(found.name) AS col "
    "WHERE found.type = 'table' ORDER BY found.name, col.cid"
)


async def all_rows(app: Redrive) -> Rows:
    rows: Rows = {}
    for table, columns in (await _columns(app)).items():
        kept = [name for name in columns if (table, name) not in SEEN]
        found = await ask(parts_of(app).database, f"SELECT {', '.join(kept)} FROM redrive.{table}")
        rows[table] = [dict(zip(kept, each, strict=True)) for each in sorted(found, key=repr)]
    return rows


def rows_of(rows: Rows, org: str) -> Rows:
    """Return the rows that belong to one organization, and to its runs."""
    runs = {row["id"] for row in rows["runs"] if row["org"] == org}
    return {
        table: [row for row in found if row.get("org") == org or row.get("run_id") in runs]
        for table, found in rows.items()
    }


def ids_of(rows: Rows) -> set[str]:
    """Return the ids that only a reader of these rows can know."""
    named = {
        str(row[name]) for found in rows.values() for row in found for name in ("id", "run_id") if name in row
    }
    return {each for each in named if len(each) == 32}


def difference(before: Rows, after: Rows) -> list[str]:
    """Describe the first changed rows of each table, for the message of a failed test."""
    found = []
    for table in before:
        if before[table] == after[table]:
            continue
        earlier, later = ({repr(row) for row in rows[table]} for rows in (before, after))
        gone = [row for row in before[table] if repr(row) not in later]
        come = [row for row in after[table] if repr(row) not in earlier]
        found += [f"{table}: - {row}" for row in gone[:3]] + [f"{table}: + {row}" for row in come[:3]]
    return found


async def _columns(app: Redrive) -> dict[str, list[str]]:
    if isinstance(parts_of(app).database, PostgresDatabase):
        found = await ask(parts_of(app).database, _ON_POSTGRES, schema=parts_of(app).settings.schema)
    else:
        found = await ask(parts_of(app).database, _ON_SQLITE)
    tables: dict[str, list[str]] = {}
    for table, column in found:
        if not table.startswith("sqlite_"):
            tables.setdefault(table, []).append(column)
    return tables
