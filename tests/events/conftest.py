"""An application with a stream, on both databases."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import PostgresServer
from tests.store.schemas import Schemas

from redrive import Redrive
from redrive.settings import Settings


class Site:
    """One database, and the applications that use it."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.apps: list[Redrive] = []

    def app(self, **options: Any) -> Redrive:
        settings = Settings(schema=self.schema, **options)
        app = Redrive(self.url, settings=settings, log=False, durable=False)
        self.apps.append(app)
        return app


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "sqlite":
            site = Site(f"sqlite:///{tmp_path}/redrive.db", "redrive")
        else:
            server: PostgresServer = request.getfixturevalue("live_postgres")
            schemas: Schemas = request.getfixturevalue("schemas")
            site = Site(server.url, await stack.enter_async_context(schemas.lent()))
        try:
            yield site
        finally:
            for app in site.apps:
                await app.close()
