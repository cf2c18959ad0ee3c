"""Pages in a real Chromium. Each test process starts it once, and also the site that tests only read.

    async def test_something(open_page: OpenPage) -> None:            a rich scene, read only
        page = await open_page("viewer", "/app/admin/dlq", theme="dark", width=390)

    async def test_other(shop: Site, visit: Browsing) -> None:        a new, empty site
        shop.trouble(stripe="402")
        [letter] = await shop.dead_letters("checkout", order(1))
        page = await visit.open("admin", f"/app/admin/dlq/{letter}")

A test fails if a page requests another host, violates its own policy, or prints an error on the console.
"""

from __future__ import annotations

import fcntl
import inspect
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.browser.browsing import Browsing, launched
from tests.browser.scene.build import build
from tests.browser.site import Site
from tests.servers import PostgresServer

OpenPage = Callable[..., Awaitable[Page]]
_HERE = Path(__file__).parent
SCALE = 0.2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests of this folder on the event loop of the browser."""
    for item in items:
        own = _HERE in item.path.parents
        if own and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as running:
        yield running


@pytest.fixture(scope="session")
def scenery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the scene, which all test processes share; the first process builds it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    path = shared / "scene.db"
    with (shared / "scene.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build(path, SCALE)
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene(scenery: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A site to read, with days of work in it. No worker runs there, so nothing changes."""
    folder = tmp_path_factory.mktemp("scene")
    shutil.copy(scenery, folder / "work.db")
    site = await Site.opened(folder, server_worker="false")
    yield site
    await site.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tour(browser: Browser, scene: Site) -> AsyncIterator[Browsing]:
    """A user with a browser on the scene."""
    visitor = Browsing(browser, scene)
    yield visitor
    assert await visitor.close() == []


@pytest.fixture
def open_page(tour: Browsing) -> OpenPage:
    """Opens pages of the scene: see Browsing.open."""
    return tour.open


@pytest_asyncio.fixture(loop_scope="session")
async def shop(tmp_path: Path) -> AsyncIterator[Site]:
    """A new, empty site on a SQLite file, with a worker."""
    site = await Site.opened(tmp_path)
    yield site
    await site.close()


@pytest_asyncio.fixture(loop_scope="session")
async def postgres_shop(tmp_path: Path, live_postgres: PostgresServer) -> AsyncIterator[Site]:
    """A new, empty site on PostgreSQL, with a worker."""
    schema = f"test_{uuid.uuid4().hex}"
    site = await Site.opened(tmp_path, live_postgres.url, schema=schema)
    yield site
    await site.close()
    await drop(live_postgres.url, schema)


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, shop: Site) -> AsyncIterator[Browsing]:
    """A user with a browser on `shop`."""
    visitor = Browsing(browser, shop)
    yield visitor
    assert await visitor.close() == []


@pytest_asyncio.fixture(loop_scope="session")
async def postgres_visit(browser: Browser, postgres_shop: Site) -> AsyncIterator[Browsing]:
    visitor = Browsing(browser, postgres_shop)
    yield visitor
    assert await visitor.close() == []


async def drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.execute(f"DROP ROLE IF EXISTS {schema}_redrive_tenant")
    await connection.close()
