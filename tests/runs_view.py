"""Lets tests write runs on PostgreSQL as if they were one table, as on SQLite.

`redrive.runs` is a view there. Only tests write to it: to damage or age a run, they change a column, in
whatever table it lies. A row goes to the table of its `place`.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from redrive.store import postgres
from redrive.store.postgres_migration import quoted
from redrive.store.row_level_security import TENANT_RIGHTS

_GIVEN = (
    "id",
    "org",
    "definition",
    "input",
    "idempotency_key",
    "request_hash",
    "correlation_id",
    "tags",
    "metadata",
)
_TABLES = ("ready", "idle", "leases", "ended")
_FIND_VIEW = """SELECT 1 FROM pg_catalog.pg_views WHERE schemaname = $1 AND viewname = 'runs' AND NOT EXISTS (
    SELECT 1 FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace AS place ON place.oid = pronamespace
    WHERE nspname = $1 AND proname = 'write_runs')"""
_COLUMNS = """SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = $1 AND table_name = ANY ($2) ORDER BY ordinal_position"""
_COUNTED = frozenset(
    {
        "failures",
        "rate_limit_waits",
        "holds",
        "losses",
        "isolated_crashes",
        "isolation",
        "replays",
        "redrives",
        "step_only",
        "has_letter",
    }
)


def make_runs_writable() -> None:
    """Install the triggers in every schema that this process migrates from now on."""
    original = postgres.migrate  # type: ignore[attr-defined]

    @wraps(original)
    async def migrate(connection: Any, schema: str, qualified: Any) -> bool:
        changed = await original(connection, schema, qualified)
        if changed and await connection.fetch(_FIND_VIEW, schema):
            for text in await _triggers(connection, schema):
                await connection.execute(text)
        return changed

    postgres.migrate = migrate  # type: ignore[attr-defined]


async def _triggers(connection: Any, schema: str) -> list[str]:
    assert set(_TABLES) <= TENANT_RIGHTS.keys()
    columns: dict[str, list[str]] = {table: [] for table in _TABLES}
    for table, column in await connection.fetch(_COLUMNS, schema, list(_TABLES)):
        columns[table].append(column)
    space = quoted(schema)
    gone = "".join(f"DELETE FROM {space}.{table} WHERE id = OLD.id; " for table in _TABLES)
    given = ", ".join(_GIVEN)
    values = ", ".join(
        "NULLIF(NEW.correlation_id, encode(uuid_send(NEW.id), 'hex'))"
        if name == "correlation_id"
        else f"NEW.{name}"
        for name in _GIVEN
    )
    put = "".join(_insert(space, table, columns[table]) for table in _TABLES)
    return [
        f"""CREATE FUNCTION {space}.write_runs() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP <> 'INSERT' THEN
                {gone}
                DELETE FROM {space}.run_inputs WHERE id = OLD.id;
            END IF;
            IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
            INSERT INTO {space}.run_inputs ({given}) SELECT {values};
            {put}
            RETURN NEW;
        END $$""",
        f"""CREATE TRIGGER write_runs INSTEAD OF INSERT OR UPDATE OR DELETE ON {space}.runs
        FOR EACH ROW EXECUTE FUNCTION {space}.write_runs()""",
    ]


def _insert(space: str, table: str, columns: list[str]) -> str:
    """A count without a value is 0, as in the table on SQLite."""
    values = ", ".join(_value(table, name) for name in columns)
    places = {"ready": "= 'ready'", "leases": "= 'leased'", "ended": "= 'ended'"}
    place = places.get(table, "NOT IN ('ready', 'leased', 'ended')")
    return (
        f"IF NEW.place {place} THEN "
        f"INSERT INTO {space}.{table} ({', '.join(columns)}) SELECT {values}; END IF; "
    )


def _value(table: str, name: str) -> str:
    if name in _COUNTED:
        return f"COALESCE(NEW.{name}, 0)"
    if name == "sort_key":
        return "COALESCE(NEW.sort_key, NEW.submitted_at - 3600 * NEW.priority)"
    if name == "leased_until" and table == "leases":
        return "COALESCE(NEW.leased_until, 9e9)"
    return f"NEW.{name}"
