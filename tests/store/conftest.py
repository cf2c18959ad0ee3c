"""One contract for both databases: a test with the fixture `database` runs on each, with empty tables."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from tests.servers import PostgresServer
from tests.store.schemas import Schemas

from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase

DatabaseT = TypeVar("DatabaseT", bound=Database)


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        async with migrated(SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)) as sqlite:
            yield sqlite
    else:
        server: PostgresServer = request.getfixturevalue("live_postgres")
        schemas: Schemas = request.getfixturevalue("schemas")
        async with on_postgres(server, schemas) as postgres:
            yield postgres


@pytest.fixture(params=["sqlite", "postgres"])
async def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A database without tables."""
    if request.param == "sqlite":
        sqlite = SqliteDatabase(str(tmp_path / "fresh.db"))
        yield sqlite
        await sqlite.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schemas: Schemas = request.getfixturevalue("schemas")
    postgres = PostgresDatabase(server.url, schema=f"test_{uuid.uuid4().hex}")
    yield postgres
    await postgres.close()
    await asyncio.to_thread(schemas.drop, postgres.schema)


@pytest.fixture
async def schema(schemas: Schemas) -> AsyncIterator[str]:
    """The name of a schema that does not exist yet; the fixture drops it afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    yield name
    await asyncio.to_thread(schemas.drop, name)


@pytest.fixture
async def postgres_database(
    live_postgres: PostgresServer, schemas: Schemas
) -> AsyncIterator[PostgresDatabase]:
    async with on_postgres(live_postgres, schemas) as database:
        yield database


@asynccontextmanager
async def on_postgres(server: PostgresServer, schemas: Schemas) -> AsyncIterator[PostgresDatabase]:
    async with schemas.lent() as schema, migrated(PostgresDatabase(server.url, schema=schema)) as database:
        yield database


@asynccontextmanager
async def migrated(database: DatabaseT) -> AsyncIterator[DatabaseT]:
    await database.migrate()
    try:
        yield database
    finally:
        await database.close()
