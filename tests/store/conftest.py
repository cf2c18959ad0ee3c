"""One contract, both databases: a test that asks for `database` runs on each of them, with empty tables."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.schemas import Schemas, drop

from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase

DatabaseT = TypeVar("DatabaseT", bound=Database)


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        async with _migrated(SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)) as sqlite:
            yield sqlite
    else:
        server: PostgresServer = request.getfixturevalue("live_postgres")
        schemas: Schemas = request.getfixturevalue("schemas")
        async with schemas.lent() as schema, _migrated(_postgres(server, schema)) as postgres:
            yield postgres


@pytest.fixture
async def schema(live_postgres: PostgresServer) -> AsyncIterator[str]:
    """The name of a schema that does not exist yet, and will not exist afterwards."""
    async with _fresh_schema(live_postgres) as name:
        yield name


@pytest.fixture
async def postgres_database(live_postgres: PostgresServer, schema: str) -> AsyncIterator[PostgresDatabase]:
    async with _migrated(_postgres(live_postgres, schema)) as database:
        yield database


@asynccontextmanager
async def _fresh_schema(server: PostgresServer) -> AsyncIterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    yield name
    connection = await asyncpg.connect(server.url)
    await drop(connection, name)
    await connection.close()


def _postgres(server: PostgresServer, schema: str) -> PostgresDatabase:
    return PostgresDatabase(server.url, schema=schema)


@asynccontextmanager
async def _migrated(database: DatabaseT) -> AsyncIterator[DatabaseT]:
    await database.migrate()
    try:
        yield database
    finally:
        await database.close()
