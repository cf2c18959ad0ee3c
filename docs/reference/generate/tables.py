"""Generates the page of all tables and their columns from the migrations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docs.reference.generate.page import NOTE, code, page, table

from redrive.store.migration import migrations

_CREATED = re.compile(r"CREATE TABLE (?:redrive\.)?(\w+) \((.*?)\n\)", re.DOTALL)
_ADDED = re.compile(r"ALTER TABLE (?:redrive\.)?(\w+)\s+ADD COLUMN (\w+)")
_DROPPED = re.compile(r"ALTER TABLE (?:redrive\.)?(\w+)\s+DROP COLUMN (\w+)")
_COLUMN = re.compile(r"^\s*(\w+) (?:text|uuid|integer|bigint|double precision|boolean|bytea)\b", re.MULTILINE)

Tables = dict[str, list[str]]
"""The columns of every table."""


def sqlite_tables() -> Tables:
    return _tables(text for migration in migrations() for text in migration.for_sqlite())


def postgres_tables() -> Tables:
    return _tables(text for migration in migrations() for text in migration.for_postgres())


def tables() -> Tables:
    """The tables of both databases."""
    return postgres_tables() | sqlite_tables()


def _tables(texts: Iterable[str]) -> Tables:
    found: Tables = {}
    for text in texts:
        for name, body in _CREATED.findall(f"{text}\n"):
            found[name] = _COLUMN.findall(body)
        for name, column in _ADDED.findall(text):
            found[name].append(column)
        for name, column in _DROPPED.findall(text):
            found[name].remove(column)
    return found


def table_page() -> str:
    on_sqlite, on_postgres = sqlite_tables(), postgres_tables()
    rows = [
        (code(name), _where(name, on_sqlite, on_postgres), ", ".join(code(column) for column in columns))
        for name, columns in sorted(tables().items())
    ]
    return page(
        "# Tables",
        NOTE,
        "The tables of the database. On PostgreSQL they are in the schema `redrive`, or in the schema named "
        "by the setting `schema`. The tables are not a stable interface: read them, but write only through "
        "Redrive, and expect [migrations](../operations/upgrade.md) to change them. "
        "[Storage](../internals/storage.md) explains the design.",
        "A run is one row of the table `runs` on SQLite. On PostgreSQL it is a row of `run_inputs` and a row "
        "of `ready`, `idle`, `leases` or `ended`; there `runs` is a view that joins both, with the same "
        "columns except `owner` and `order_key`.",
        table(("table", "database", "columns"), rows),
    )


def _where(name: str, on_sqlite: Tables, on_postgres: Tables) -> str:
    if name in on_sqlite and name in on_postgres:
        return "both"
    return "SQLite; a view on PostgreSQL" if name in on_sqlite else "PostgreSQL"
