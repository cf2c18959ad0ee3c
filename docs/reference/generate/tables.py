"""The page of all tables and their columns, from the migrations."""

from __future__ import annotations

import re
from pathlib import Path

from docs.reference.generate.page import NOTE, code, page, table

import redrive.store

MIGRATIONS = Path(redrive.store.__file__).parent / "migrations"
_CREATED = re.compile(r"CREATE TABLE redrive\.(\w+) \((.*?)\n\)", re.DOTALL)
_ADDED = re.compile(r"ALTER TABLE redrive\.(\w+)\s+ADD COLUMN (\w+) ([a-z ]+)")
_RENAMED = re.compile(r"ALTER TABLE redrive\.(\w+)\s+RENAME COLUMN (\w+) TO (\w+)")
_DROPPED = re.compile(r"ALTER TABLE redrive\.(\w+)\s+DROP COLUMN (\w+)")
_COLUMN = re.compile(r"^\s*(\w+) (text|integer|bigint|double precision|boolean|bytea)\b", re.MULTILINE)


def tables() -> dict[str, dict[str, str]]:
    """The columns of every table, with their types."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        text = file.read_text()
        for name, body in _CREATED.findall(text):
            found.setdefault(name, {}).update(_COLUMN.findall(body))
        for name, column, kind in _ADDED.findall(text):
            found[name].setdefault(column, kind.replace("NOT NULL", "").strip())
        for name, before, after in _RENAMED.findall(text):
            found[name] = {
                after if column == before else column: kind for column, kind in found[name].items()
            }
        for name, column in _DROPPED.findall(text):
            del found[name][column]
    return found


def table_page() -> str:
    rows = [
        (code(name), ", ".join(code(column) for column in columns))
        for name, columns in sorted(tables().items())
    ]
    return page(
        "# Tables",
        NOTE,
        "What the database holds, in the schema `redrive` on PostgreSQL (or another one that the setting "
        "`schema` names). This is not an interface: read it, but write through Redrive only, and expect "
        "[migrations](../operations/upgrade.md) to change it. Why it is so: "
        "[storage](../internals/storage.md).",
        table(("table", "columns"), rows),
    )
