"""The guide in the pages of a demo, in a real browser: it leads from the first failure to its end."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Locator, Page, ViewportSize, expect
from tests.browser.browsing import axe, launched
from tests.browser.recorder import Recorder
from tests.demo.running import demo

PHONE, DESK = ViewportSize(width=320, height=800), ViewportSize(width=1280, height=900)


async def test_the_guide_leads_through_the_pages(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        base = running.link.partition("/app/")[0]
        running.wait_for(r"\n +redrive dlq groups\n")
        async with launched() as browser:
            context = await browser.new_context(base_url=base, viewport=DESK, reduced_motion="reduce")
            recorder = Recorder(base)
            recorder.allow(f"another host: [A-Z]+ {running.outside}/")
            await recorder.watch(context)
            page = await context.new_page()
            await page.goto(running.link)
            await page.get_by_role("button", name="Sign in with this link").click()
            await _follow(page, "See a failure", done=1)
            await page.get_by_role("link", name="no shipping zone").first.click()
            await expect(page.get_by_role("heading", name="Newest dead letters")).to_be_visible()
            await expect(guide(page).locator("li.done")).to_have_count(1)
            await _follow(page, "Understand it", done=2)
            await expect(page.get_by_role("heading", level=1)).to_contain_text("shipping zone")
            await _is_clean(page)
            await guide(page).get_by_role("link", name="Fix it").click()
            assert await axe(page) == []
            await expect(page.get_by_role("heading", level=2).first).to_have_text("Acme itself: needs a fix")
            await expect(page.get_by_role("button").first).to_have_text("Add Norway")
            await page.get_by_role("button", name="Add Norway").click()
            await expect(page.get_by_text("Norway has a zone")).to_be_visible()
            assert await axe(page) == []
            await page.get_by_role("link", name="Back to Redrive").click()
            await _follow(page, "Replay the group", done=3)
            await page.get_by_role("button", name="Plan", exact=True).click()
            await page.get_by_role("button", name="Start", exact=True).click()
            await _follow(page, "Watch it resolve", done=5)
            await _hide(page)
            assert recorder.remaining() == []
        running.wait_for("✓ 5  Watch it resolve")


def guide(page: Page) -> Locator:
    return page.get_by_role("region", name="Guide")


async def _follow(page: Page, title: str, *, done: int) -> None:
    """Follow a link of the guide, after which this many steps are done."""
    await guide(page).get_by_role("link", name=title).click()
    await expect(guide(page).locator("li.done")).to_have_count(done)


async def _is_clean(page: Page) -> None:
    """Check the page on a phone and a desktop, light and dark."""
    for size, theme in ((PHONE, "light"), (PHONE, "dark"), (DESK, "dark"), (DESK, "light")):
        await page.set_viewport_size(size)
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        assert await axe(page) == []
        beyond = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert beyond <= 0
        assert await guide(page).evaluate("each => each.offsetHeight") < size["height"] / 4, (
            "room for the page"
        )


async def _hide(page: Page) -> None:
    """Hide the guide, also on the next page."""
    await guide(page).get_by_role("button", name="Hide the guide").click()
    await expect(guide(page)).to_have_count(0)
    await page.goto("/app/admin")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(guide(page)).to_have_count(0)
