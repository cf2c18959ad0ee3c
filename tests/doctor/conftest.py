"""An application on an empty database of each kind, and the doctor's report about it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from tests.servers import PostgresServer

from redrive.app import Redrive
from redrive.settings import Settings


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Redrive]:
    if request.param == "sqlite":
        async with made(f"sqlite:///{tmp_path / 'redrive.db'}") as sqlite:
            yield sqlite
    else:
        async with on_postgres(request.getfixturevalue("live_postgres")) as postgres:
            yield postgres


@pytest.fixture
async def postgres_app(live_postgres: PostgresServer) -> AsyncIterator[Redrive]:
    async with on_postgres(live_postgres) as app:
        yield app


@asynccontextmanager
async def on_postgres(server: PostgresServer) -> AsyncIterator[Redrive]:
    """An application in a separate schema."""
    schema = f"test_{uuid.uuid4().hex}"
    async with made(server.url, schema=schema) as app:
        yield app
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def made(url: str, *, schema: str = "redrive") -> Redrive:
    return Redrive(url, settings=Settings(schema=schema), log=False, queues=["mail"])
