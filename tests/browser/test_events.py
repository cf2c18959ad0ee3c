"""Replaying an event from its page: the chosen projectors, and no others."""

from __future__ import annotations

from playwright.async_api import expect
from tests.browser.browsing import Browsing
from tests.browser.routes import ADMIN
from tests.browser.site import Site

from redrive import Redrive
from redrive.events import Event, Stream
from redrive.settings import Settings


async def _recorded(site: Site) -> str:
    """An event of which the server's worker executes two projectors; one of them fails."""
    async with Redrive(site.database_url, settings=Settings(), log=False) as app:
        orders = app.stream("orders", "redis://localhost:1")
        for name, version in (("loyalty", 2), ("search", 1)):
            _declare(orders, name, version)
        payload = {"currency": "GBP", "total": 7}
        [recorded] = await app.events().record(
            orders, [Event(type="order.shipped", payload=payload, dedupe_key="1")]
        )
    return recorded.id


def _declare(stream: Stream, name: str, version: int) -> None:
    async def project(event: Event) -> None:
        raise AssertionError("the worker of the site executes it")

    stream.projector(name, version=version, queue="events")(project)


async def test_the_chosen_projectors_are_executed_again(shop: Site, visit: Browsing) -> None:
    event = await _recorded(shop)
    page = await visit.open("admin", f"{ADMIN}/events/{event}")
    await expect(page.get_by_text("1 projector has failed")).to_be_visible(timeout=30_000)
    before = await _runs(shop, event)

    await page.keyboard.press("r")
    loyalty, search = (page.get_by_role("checkbox", name=name) for name in ("loyalty", "search"))
    await expect(loyalty).to_be_checked()
    await expect(search).not_to_be_checked()
    await loyalty.uncheck()
    await search.check()
    await page.get_by_label("Reason").fill("a new index")
    await page.get_by_role("button", name="Replay", exact=True).click()
    await expect(page.get_by_text("Replay started")).to_be_visible()

    after = await _runs(shop, event)
    assert after["loyalty"] == before["loyalty"]
    assert after["search"] != before["search"]


async def test_without_a_projector_nothing_is_replayed(shop: Site, visit: Browsing) -> None:
    event = await _recorded(shop)
    page = await visit.open("admin", f"{ADMIN}/events/{event}")
    await expect(page.get_by_text("1 projector has failed")).to_be_visible(timeout=30_000)
    before = await _runs(shop, event)
    visit.recorder.allow("status of 422")
    await page.keyboard.press("r")
    await page.get_by_role("checkbox", name="loyalty").uncheck()
    await page.get_by_role("button", name="Replay", exact=True).click()
    await expect(page.locator(".pop [data-problem]:visible")).to_be_visible()
    assert await _runs(shop, event) == before


async def _runs(site: Site, event: str) -> dict[str, str]:
    found = await site.get(f"/api/v1/stored-events/{event}")
    return {each["projector"]: each["run_id"] for each in found["projections"]}
