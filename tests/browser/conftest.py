"""Pages in a real Chromium, which is started once per test process, as is the site that tests only look at.

    async def test_something(open_page: OpenPage) -> None:            a site with a rich scene, not to be changed
        page = await open_page("viewer", "/app/admin/dlq", theme="dark", width=390)

    async def test_other(shop: Site, visit: Browsing) -> None:        a site of this test's own, empty
        shop.trouble(stripe="402")
        [letter] = await shop.dead_letters("checkout", order(1))
        page = await visit.open("admin", f"/app/admin/dlq/{letter}")

A test fails when a page asked another host, violated its own policy, or told of an error on the console.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.browser.browsing import Browsing, launched
from tests.browser.site import Site
from tests.servers import PostgresServer

OpenPage = Callable[..., Awaitable[Page]]
_HERE = Path(__file__).parent


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
    await _drop(live_postgres.url, schema)


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


async def _drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.execute(f"DROP ROLE IF EXISTS {schema}_redrive_tenant")
    await connection.close()
