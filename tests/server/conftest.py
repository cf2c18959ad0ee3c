"""A test with the fixture `house` runs on both databases.

PostgreSQL has one schema, emptied for each test.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.server.house import House, new_app, served
from tests.servers import PostgresServer

_EMPTY = """
DO $$ DECLARE names text; BEGIN
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') INTO names FROM pg_tables
    WHERE schemaname = '{0}' AND tablename NOT IN ('migrations', 'organizations');
    IF names IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || names;
        DELETE FROM {0}.organizations WHERE name <> 'default';
    END IF;
END $$"""


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    if request.param == "sqlite":
        async with served(new_app(f"sqlite:///{tmp_path}/work.db")) as sqlite:
            yield sqlite
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema: str = request.getfixturevalue("shared_schema")
    await _execute(server.url, _EMPTY.format(schema))
    async with served(new_app(server.url, schema)) as postgres:
        yield postgres


@pytest.fixture(scope="session")
def shared_schema(live_postgres: PostgresServer) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    yield name
    asyncio.run(_execute(live_postgres.url, f"DROP SCHEMA IF EXISTS {name} CASCADE"))
    asyncio.run(_execute(live_postgres.url, f"DROP ROLE IF EXISTS {name}_redrive_tenant"))


@pytest.fixture
async def small_house(tmp_path: Path) -> AsyncIterator[House]:
    """Serve an application on SQLite, for tests that do not depend on the database."""
    async with served(new_app(f"sqlite:///{tmp_path}/work.db")) as each:
        yield each


async def _execute(url: str, text: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(text)
    await connection.close()
