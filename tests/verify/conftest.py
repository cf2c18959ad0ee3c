"""One healthy history on each database, made once; tests tamper with it and roll the changes back."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.servers import PostgresServer
from tests.verify.history import History
from tests.verify.tampering import Change

from redrive.app import Redrive
from redrive.settings import Settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out changes on a database whose tables cannot hold such rows."""
    items[:] = [item for item in items if _can_exist(getattr(item, "callspec", None))]


def _can_exist(call: Any) -> bool:
    change = None if call is None else call.params.get("change")
    return not isinstance(change, Change) or change.only in ("", call.params["app"])


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgres"])
async def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Redrive]:
    """An application on an empty database."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("verify") / "redrive.db"
        async with _at(Settings(database_url=f"sqlite:///{path}")) as app:
            yield app
    else:
        server: PostgresServer = request.getfixturevalue("live_postgres")
        schema = f"test_{uuid.uuid4().hex}"
        async with _at(Settings(database_url=server.url, schema=schema)) as app:
            yield app
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
        await connection.close()


def _at(settings: Settings) -> Redrive:
    return Redrive(settings=settings, log=False, durable=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def history(app: Redrive) -> History:
    made = History(app)
    await made.make()
    return made
