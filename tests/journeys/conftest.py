"""Each test has its own world, on either database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.journeys.journal import VARIABLE
from tests.journeys.world import World, new_schema
from tests.servers import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    url = f"sqlite:///{tmp_path}/work.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("live_postgres")
        url = server.url
    async for each in _world(url, tmp_path, monkeypatch):
        yield each


@pytest.fixture
async def postgres_world(
    live_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    async for each in _world(live_postgres.url, tmp_path, monkeypatch):
        yield each


async def _world(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    world = World(url, folder, new_schema())
    monkeypatch.setenv(VARIABLE, str(world.journal.path))
    try:
        yield world
    finally:
        await world.close()
