"""Pages in a real Chromium, which is started once per test process, as is the site that tests only look at.

    async def test_something(open_page: OpenPage) -> None:            a rich scene, not to be changed
        page = await open_page("viewer", "/app/admin/dlq", theme="dark", width=390)

    async def test_other(shop: Site, visit: Browsing) -> None:        a site of its own, empty
        shop.trouble(stripe="402")
        [letter] = await shop.dead_letters("checkout", order(1))
        page = await visit.open("admin", f"/app/admin/dlq/{letter}")

A test fails when a page asked another host, violated its own policy, or told of an error on the console.
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
    """All tests of this folder run on one event loop: it is that of the browser."""
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
    """A file with the scene in it, which all test processes share: the first one builds it."""
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
    """A site to be looked at, with days of work in it; nobody works there, so that nothing changes."""
    folder = tmp_path_factory.mktemp("scene")
    shutil.copy(scenery, folder / "work.db")
    site = await Site.opened(folder, server_worker="false")
    yield site
    await site.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tour(browser: Browser, scene: Site) -> AsyncIterator[Browsing]:
    """Somebody with a browser at the scene."""
    visitor = Browsing(browser, scene)
    yield visitor
    assert await visitor.close() == []


@pytest.fixture
def open_page(tour: Browsing) -> OpenPage:
    """Opens pages of the scene: see Browsing.open."""
    return tour.open


@pytest_asyncio.fixture(loop_scope="session")
async def shop(tmp_path: Path) -> AsyncIterator[Site]:
    """A site of the test's own: empty, with a worker, on a SQLite file."""
    site = await Site.opened(tmp_path)
    yield site
    await site.close()


@pytest_asyncio.fixture(loop_scope="session")
async def postgres_shop(tmp_path: Path, live_postgres: PostgresServer) -> AsyncIterator[Site]:
    """The same on PostgreSQL."""
    schema = f"test_{uuid.uuid4().hex}"
    site = await Site.opened(tmp_path, live_postgres.url, schema=schema)
    yield site
    await site.close()
    await drop(live_postgres.url, schema)


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, shop: Site) -> AsyncIterator[Browsing]:
    """Somebody with a browser at `shop`."""
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
