"""Row-level security of the tables that make up a run on PostgreSQL, and of their view (I8, W13).

Even a statement without a filter, run with the tenant role, must reach only the org's own rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import md5
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import ask

from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_migration import quoted
from redrive.store.row_level_security import TENANT_RIGHTS, tenant_role

MINE, THEIRS = "acme", "globex"
PLACES = {"ready": "ready", "idle": "held", "leases": "leased", "ended": "ended"}
TABLES = ("run_inputs", *PLACES)


@pytest.fixture
async def walled(
    postgres_database: PostgresDatabase, live_postgres: PostgresServer
) -> AsyncIterator[PostgresDatabase]:
    await postgres_database.enable_row_level_security()
    yield postgres_database
    role = quoted(tenant_role(postgres_database.schema))
    admin = await asyncpg.connect(live_postgres.url)
    await admin.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
    await admin.close()


RUN = """
    INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at,
        step_index, step_state, input, attempt, epoch, correlation_id, ended_at)
    VALUES (:id, :org, 'greet', 'digest', 'default', 0, 'RUNNING', :place, 1.0, 0, 'RUNNING', '{}', 1, 1, 'c',
        2.0)
"""


async def furnish(database: PostgresDatabase, place: str) -> None:
    """A run of each org."""
    for org in (MINE, THEIRS):
        await ask(database, RUN, id=run_of(org), org=org, place=place)


def run_of(org: str) -> str:
    return md5(org.encode(), usedforsecurity=False).hexdigest()


@asynccontextmanager
async def tenant(server: PostgresServer, schema: str, org: str) -> AsyncIterator[Any]:
    """A raw connection of the restricted role."""
    settings = {"role": tenant_role(schema), "search_path": schema}
    connection = await asyncpg.connect(server.url, server_settings=settings)
    await connection.execute("SELECT set_config('redrive_tenant.org', $1, false)", org)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("table", PLACES)
async def test_the_view_shows_an_org_its_own_runs_i8(
    live_postgres: PostgresServer, walled: PostgresDatabase, table: str
) -> None:
    await furnish(walled, PLACES[table])

    for org in (MINE, THEIRS):
        async with tenant(live_postgres, walled.schema, org) as connection:
            rows = await connection.fetch("SELECT id, org, input FROM runs")
        assert [tuple(row) for row in rows] == [(UUID(run_of(org)), org, "{}")]
    async with tenant(live_postgres, walled.schema, "") as connection:
        assert await connection.fetch("SELECT id FROM runs") == []
    assert len(await ask(walled, "SELECT id FROM redrive.runs")) == 2


async def changes(connection: Any, text: str, *values: str) -> int:
    """Return the number of rows that the statement changes, then roll it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        return int((await connection.execute(text, *values)).rpartition(" ")[2])
    except asyncpg.InsufficientPrivilegeError as error:
        if "row-level security" not in str(error):
            raise
        return 0
    finally:
        await transaction.rollback()


@pytest.mark.parametrize("table", TABLES)
async def test_each_table_of_runs_isolates_orgs_i8(
    live_postgres: PostgresServer, walled: PostgresDatabase, table: str
) -> None:
    await furnish(walled, PLACES.get(table, "ready"))
    async with tenant(live_postgres, walled.schema, MINE) as connection:
        assert [tuple(row) for row in await connection.fetch(f"SELECT org FROM {table}")] == [(MINE,)]
        assert await changes(connection, f"UPDATE {table} SET id = id") == 1
        assert await changes(connection, f"UPDATE {table} SET org = $1", THEIRS) == 0
        if "DELETE" in TENANT_RIGHTS[table]:
            assert await changes(connection, f"DELETE FROM {table}") == 1
        copied = ", ".join(
            row[0]
            for row in await ask(
                walled,
                "SELECT CAST(column_name AS text) FROM information_schema.columns "
                "WHERE table_schema = :space AND table_name = :name AND column_name NOT IN ('id', 'org')",
                space=walled.schema,
                name=table,
            )
        )
        insert = (
            f"INSERT INTO {table} (id, org, {copied}) SELECT gen_random_uuid(), $1, {copied} FROM {table}"
        )
        assert await changes(connection, insert, THEIRS) == 0
        assert await changes(connection, insert, MINE) == 1
