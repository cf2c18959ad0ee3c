"""A database of version 0.1: its tables, its work, and the statements of its workers.

All three come from that version. `schema_0_1` has its migrations. `work_0_1.json` has rows that its engine
wrote to SQLite: runs in every place, letters in every state, replays, audit. `statements_0_1.json` has the
rendered statements of its workers, by the version of the tables: 11, the last of 0.1, and 13, the last before
runs were split. It omits the `promote` of 13, which would still work on SQLite, and does there what it does
now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.store.build import ask, value

from redrive.store import migration
from redrive.store.database import Database
from redrive.store.migration import Migration, conversion
from redrive.store.statement import SqlQuery, Statement

_HERE = Path(__file__).parent

NEWEST = 11
"""The newest version of the tables that 0.1 knew."""
COUNTED = {"dead_letter_counts", "dead_letter_figures", "tallies"}
"""Tables that triggers fill."""


def migrations_0_1() -> tuple[Migration, ...]:
    return migration._read(_HERE / "schema_0_1")


@contextmanager
def only(known: tuple[Migration, ...]) -> Iterator[None]:
    """Limit the program to these migrations."""
    every = migration.migrations
    migration.migrations = lambda: known  # type: ignore[assignment]
    try:
        yield
    finally:
        migration.migrations = every


async def create_tables(database: Database, version: int = NEWEST) -> None:
    """Create the tables of version 0.1, or of a development version."""
    steps = (step._replace(needs_drained_workers=False) for step in conversion() if step.version <= version)
    with only((*migrations_0_1(), *steps)):
        await database.migrate()


def work() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table."""
    found: dict[str, list[dict[str, Any]]] = json.loads((_HERE / "work_0_1.json").read_text(encoding="utf-8"))
    return found


async def put_work(database: Database) -> None:
    """Fill the tables. The leased run has just started, and waiting work is due in an hour."""
    await ask(database, "DELETE FROM redrive.organizations")
    for table, rows in work().items():
        for row in rows if table not in COUNTED else ():
            await insert(database, table, row)
    for table in COUNTED:  # triggers have counted these inserts, not the history of the rows
        await ask(database, f"DELETE FROM redrive.{table}")
        for row in work()[table]:
            await insert(database, table, row)
    later = await value(database, "SELECT :now + 3600")
    leased = (
        "UPDATE redrive.runs SET lease_expires_at = :later, attempt_started_at = :now WHERE place = 'leased'"
    )
    await ask(database, leased, later=later)
    await ask(database, "UPDATE redrive.runs SET due_at = :later WHERE place = 'waiting'", later=later)


async def insert(database: Database, table: str, row: dict[str, Any]) -> None:
    given = {name: found for name, found in row.items() if found is not None}
    values = ", ".join(f":{name}" for name in given)
    await ask(database, f"INSERT INTO redrive.{table} ({', '.join(given)}) VALUES ({values})", **given)


def old_statements(version: int) -> dict[str, Statement]:
    """Return the statements of workers written for the tables of `version`, by module and name."""
    found = json.loads((_HERE / "statements_0_1.json").read_text(encoding="utf-8"))[str(version)]
    return {name: stored_statement(name, both) for name, both in found.items()}


def stored_statement(name: str, both: dict[str, Any]) -> Statement:
    return Statement(*(_query(name, both[side]) for side in ("sqlite", "postgres")))


def _query(name: str, stored: dict[str, Any]) -> SqlQuery:
    names, arrays = tuple(stored["names"]), frozenset(stored["arrays"])
    then = stored.get("then")
    return SqlQuery(
        name, stored["text"], names, stored["timed"], arrays, None if then is None else _query(name, then)
    )
