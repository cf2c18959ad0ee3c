"""A test that asks for `house` runs on both databases."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.server.house import House, new_app, served
from tests.servers import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    if request.param == "sqlite":
        async with served(new_app(f"sqlite:///{tmp_path}/work.db")) as sqlite:
            yield sqlite
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    try:
        async with served(new_app(server.url, schema)) as postgres:
            yield postgres
    finally:
        await _drop(server.url, schema)


@pytest.fixture
async def small_house(tmp_path: Path) -> AsyncIterator[House]:
    """For what has nothing to do with the database."""
    async with served(new_app(f"sqlite:///{tmp_path}/work.db")) as each:
        yield each


async def _drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.execute(f"DROP ROLE IF EXISTS {schema}_redrive_tenant")
    await connection.close()
