"""The first load is small, and nothing on a page jumps, then or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import Page, Request, Route, expect
from tests.browser.browsing import Browsing, go
from tests.browser.routes import ADMIN, routes
from tests.browser.site import Site, invoice

MAX_COUNT = 160_000
"""Bytes on the wire."""

STILL = 0.01
"""Cumulative layout shift: a tenth of what counts as good."""

MAIN = (
    "sign-in",
    "overview",
    "overview-7d",
    "runs",
    "run",
    "events",
    "event",
    "streams",
    "stream",
    "dlq",
    "dlq-flat",
    "group",
    "letter",
    "letter-retried",
    "letter-compare",
    "replays",
    "replay-new",
    "replay-running",
    "breakers",
    "queues",
    "workers",
    "audit",
    "settings",
)
WATCH = """
window.__shifted = [];
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
        const what = entry.sources.map((each) => each.node?.outerHTML?.slice(0, 120) ?? each.node?.nodeValue);
        if (!entry.hadRecentInput) window.__shifted.push([entry.value, what.join(" ")]);
    }
}).observe({type: "layout-shift", buffered: true});
"""
FIRST_PAINTED = """() => new Promise((done) => {
    const look = () => {
        if (performance.getEntriesByName("first-contentful-paint").length) done();
        else requestAnimationFrame(look);
    };
    look();
})"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


async def shifted(page: Page) -> list[str]:
    """Return the layout shifts so far."""
    await page.evaluate(PAINTED)
    found = await page.evaluate("window.__shifted")
    return [f"{value:.3f} {what}" for value, what in found] if sum(each[0] for each in found) >= STILL else []


async def size(requests: list[Request]) -> dict[str, int]:
    """Return the bytes of each finished request, with headers; the stream of events never ends."""
    sizes = {}
    for request in requests:
        if not request.url.endswith("/api/v1/events"):
            found = await request.sizes()
            sizes[request.url] = found["responseBodySize"] + found["responseHeadersSize"]
    return sizes


def _noted(asked: list[Request]) -> Callable[[Request], None]:
    return lambda request: asked.append(request)


@pytest.mark.parametrize("width", [390, 1440])
async def test_the_first_load_is_small_and_nothing_jumps(tour: Browsing, width: int) -> None:
    """A new window, on each of the main pages."""
    faults = []
    known = {route.name: route for route in await routes(tour.site)}
    for route in (known[name] for name in MAIN):
        page = await tour.open(route.role, "about:blank", width=width)
        asked: list[Request] = []
        page.on("requestfinished", _noted(asked))
        await page.add_init_script(WATCH)
        await go(page, route.path)
        if route.role is not None:
            await page.wait_for_selector("html[data-live=true]")
        faults += [f"{route.name} jumps by {each}" for each in await shifted(page)]
        sizes = await size(asked)
        assert any(url.endswith(".woff2") for url in sizes), sizes
        if sum(sizes.values()) > MAX_COUNT:
            faults.append(f"{route.name} is {sum(sizes.values()):,} bytes: {sizes}")
        await page.context.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ["overview", "letter", "letter-retried", "group", "replay-new"])
async def test_nothing_jumps_when_the_font_arrives_late(tour: Browsing, name: str) -> None:
    """Text was painted in another font first; then paragraphs changed their number of lines."""
    [route] = [route for route in await routes(tour.site) if route.name == name]
    page = await tour.open(route.role, "about:blank", width=390)
    await page.add_init_script(WATCH)
    released = asyncio.Event()

    async def keep(font: Route) -> None:
        await released.wait()
        await font.continue_()

    await page.route("**/*.woff2", keep)
    await page.goto(route.path, wait_until="domcontentloaded")
    await page.evaluate(FIRST_PAINTED)
    released.set()
    await page.wait_for_load_state("load")
    await page.evaluate("document.fonts.ready.then(() => true)")
    assert await shifted(page) == []


@pytest.mark.parametrize("path", [ADMIN, f"{ADMIN}/dlq", f"{ADMIN}/dlq?view=flat"])
async def test_nothing_jumps_when_an_update_arrives(shop: Site, visit: Browsing, path: str) -> None:
    shop.trouble(recipients="bug")
    await shop.dead_letters("invoice.send_email", *[invoice(number) for number in range(3)])
    page = await visit.open("owner", "about:blank")
    await page.add_init_script(WATCH)
    await go(page, path)
    await page.wait_for_selector("html[data-live=true]")
    badge = page.locator("[data-attention]")
    await expect(badge).to_have_text("3")
    await shop.dead_letters("invoice.send_email", *[invoice(number) for number in range(3, 20)])
    await expect(badge).to_have_text("20")
    if path != ADMIN:
        await expect(page.locator("[data-news]")).to_have_text("17 new")
    assert await shifted(page) == []
