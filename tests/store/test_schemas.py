"""A reused schema equals a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from tests.cases import loop_over
from tests.servers import PostgresServer
from tests.store.build import enqueued, tables
from tests.store.schemas import Schemas

from redrive.store.postgres import PostgresDatabase
from redrive.store.store import Store


@pytest.fixture
def schemas(live_postgres: PostgresServer) -> Iterator[Schemas]:
    lender = Schemas(live_postgres.url)
    yield lender
    lender.close()


@pytest.fixture
async def connection(live_postgres: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(live_postgres.url)
    yield connection
    await connection.close()


async def test_rows_do_not_outlive_their_test(schemas: Schemas, live_postgres: PostgresServer) -> None:
    async with schemas.lent() as first:
        before = await everything(live_postgres, first)
        database = PostgresDatabase(live_postgres.url, schema=first)
        await enqueued(Store(database), 3)
        await database.close()
        assert await everything(live_postgres, first) != before

    async with schemas.lent() as second:
        assert (second, await everything(live_postgres, second)) == (first, before)


@loop_over(
    "change",
    [
        "ALTER TABLE {}.leases ADD COLUMN color text",
        "ALTER TABLE {}.leases ALTER COLUMN worker SET NOT NULL",
        "ALTER TABLE {}.leases SET (fillfactor = 50)",
        "ALTER TABLE {}.ended DISABLE ROW LEVEL SECURITY; ALTER TABLE {}.ended FORCE ROW LEVEL SECURITY",
        "ALTER TABLE {}.dead_letters DISABLE TRIGGER USER",
        "ALTER TABLE {}.ended RENAME TO finished",
        "ALTER VIEW {}.runs RENAME TO walks",
        "ALTER VIEW {}.runs ALTER COLUMN priority SET DEFAULT 0",
        "DROP VIEW {}.runs; CREATE VIEW {}.runs AS SELECT 1 AS id",
        "CREATE TABLE {}.other (number bigint)",
        "CREATE FUNCTION {}.two() RETURNS bigint LANGUAGE sql RETURN 2",
        "DROP INDEX {}.ready_order",
        "DROP TABLE {}.audit",
        "DROP SCHEMA {} CASCADE",
        "GRANT SELECT ON {}.runs TO PUBLIC",
        "GRANT USAGE ON SCHEMA {} TO PUBLIC",
        "CREATE ROLE {}_redrive_tenant",
        "INSERT INTO {}.queues (name) VALUES ('mail'); ANALYZE {}.queues",
        "UPDATE {}.migrations SET name = 'another'",
        "DELETE FROM {}.organizations",
    ],
)
async def test_a_schema_with_other_changes_is_not_reused(
    schemas: Schemas, connection: asyncpg.Connection, change: str
) -> None:
    async with schemas.lent() as first:
        await connection.execute(change.replace("{}", first))

    async with schemas.lent() as second:
        assert second != first
    assert not await connection.fetch("SELECT FROM pg_namespace WHERE nspname = $1", first)
    assert not await connection.fetch("SELECT FROM pg_roles WHERE starts_with(rolname, $1)", first)


async def test_a_schema_that_is_in_use_is_not_reused(
    schemas: Schemas, connection: asyncpg.Connection
) -> None:
    async with schemas.lent() as first, connection.transaction():
        await connection.execute("SELECT 1")
        async with schemas.lent() as second:
            pass
        async with schemas.lent() as third:
            assert len({first, second, third}) == 3


async def everything(server: PostgresServer, schema: str) -> dict[str, int]:
    """Return the number of rows in each table."""
    database = PostgresDatabase(server.url, schema=schema)
    rows = await tables(database)
    await database.close()
    return {table: len(found) for table, found in rows.items()}
