"""The structure of a database as its catalog describes it, to compare two databases."""

from __future__ import annotations

import re
from typing import Any

from tests.store.build import ask

from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase

Catalog = dict[str, list[tuple[Any, ...]]]
"""The rows of the catalog, by the kind of object they describe."""

_ON_SQLITE = {
    "tables": """SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'""",
    "columns": """SELECT part.name, info.cid, info.name, info.type, info."notnull", info.dflt_value, info.pk
        FROM sqlite_schema AS part, pragma_table_xinfo(part.name) AS info WHERE part.type = 'table'""",
    "indexes": """SELECT part.name, list.name, list."unique", list.origin, list.partial
        FROM sqlite_schema AS part, pragma_index_list(part.name) AS list WHERE part.type = 'table'""",
    "index columns": """SELECT part.name, info.seqno, info.cid, info.name, info."desc", info.coll, info.key
        FROM sqlite_schema AS part, pragma_index_xinfo(part.name) AS info WHERE part.type = 'index'""",
    "texts": "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger', 'view')",
}

_SPACE = "CAST(:schema AS regnamespace)"
_ON_POSTGRES = {
    "relations": f"""SELECT relname, CAST(relkind AS text), CAST(reloptions AS text), relrowsecurity,
            relforcerowsecurity, CAST(relpersistence AS text), CAST(relreplident AS text)
        FROM pg_class WHERE relnamespace = {_SPACE}""",
    "columns": f"""SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, collname,
            pg_get_expr(adbin, adrelid), CAST(attstorage AS text), CAST(attidentity AS text),
            row_number() OVER (PARTITION BY relname ORDER BY attnum)
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = {_SPACE} AND relkind IN ('r', 'v')""",
    "indexes": f"""SELECT relname, pg_get_indexdef(pg_class.oid), indisunique, indisprimary, indisvalid
        FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid WHERE relnamespace = {_SPACE}""",
    # PostgreSQL 18 lists NOT NULL here too, under the column's first name.
    "constraints": f"""SELECT CAST(conrelid AS regclass), conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = {_SPACE} AND contype <> 'n'""",
    "policies": """SELECT tablename, policyname, permissive, CAST(roles AS text), cmd, qual, with_check
        FROM pg_policies WHERE schemaname = :schema""",
    "triggers": f"""SELECT tgname, pg_get_triggerdef(pg_trigger.oid), CAST(tgenabled AS text)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = {_SPACE} AND NOT tgisinternal""",
    "functions": f"SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = {_SPACE}",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = :schema",
}


async def catalog_of(database: Database) -> Catalog:
    """Describe all tables, columns, indexes, triggers and, on PostgreSQL, the rest, without spaces."""
    if isinstance(database, PostgresDatabase):
        await forget_triggers_of_tests(database)
        schema = database.schema
        found = {part: await ask(database, text, schema=schema) for part, text in _ON_POSTGRES.items()}
    else:
        assert isinstance(database, SqliteDatabase)
        schema = "redrive"
        found = {part: await ask(database, text) for part, text in _ON_SQLITE.items()}
    return {part: sorted((_plain(row, schema) for row in rows), key=repr) for part, rows in found.items()}


async def forget_triggers_of_tests(database: Database) -> None:
    """Make the view `runs` read-only again on PostgreSQL: tests/runs_view.py lets tests write to it."""
    if isinstance(database, PostgresDatabase):
        await ask(database, "DROP FUNCTION IF EXISTS redrive.write_runs CASCADE")


def _plain(row: tuple[Any, ...], schema: str) -> tuple[Any, ...]:
    """Normalize the name of the schema and the line breaks."""
    texts = (str(found).replace(schema, "redrive") if isinstance(found, str) else found for found in row)
    return tuple(re.sub(r"\s+", " ", text).strip() if isinstance(text, str) else text for text in texts)
