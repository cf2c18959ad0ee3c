"""Take the pictures of the pages that the documentation shows, from a scene with many failures.

python -m docs.images.take
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from playwright.async_api import Page
from tests.browser.browsing import Browsing, launched
from tests.browser.routes import ADMIN
from tests.browser.scene.build import build
from tests.browser.screenshots import SETTLING, pulsing
from tests.browser.site import Site

OUT = Path(__file__).parent
LETTER = "is:open step:create_shipment category:unknown"
PLANNED = "is:open step:charge_card category:provider_4xx"


async def take() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "scene.db"
        await asyncio.to_thread(build, database, 0.5)
        url = f"sqlite:///{database}"
        site = await Site.opened(Path(folder), url, server_worker="false")
        try:
            async with launched() as browser, pulsing(url):
                await _take_all(Browsing(browser, site))
        finally:
            await site.close()


async def _take_all(visitor: Browsing) -> None:
    letter, planned = [await _newest(visitor.site, query) for query in (LETTER, PLANNED)]
    await _save(await _opened(visitor, ADMIN), "overview")
    await _save(await _opened(visitor, f"{ADMIN}/dlq"), "failures")
    await _save(await _opened(visitor, f"{ADMIN}/dlq/{letter['id']}"), "dead-letter")
    page = await _opened(visitor, f"{ADMIN}/dlq/groups/{planned['fingerprint']}")
    await page.locator(".group-actions a[data-dialog]").click()
    await page.locator("dialog").get_by_role("button", name="Plan", exact=True).click()
    await page.locator("dialog").get_by_role("button", name="Start", exact=True).wait_for()
    await _save(page, "plan")


async def _opened(visitor: Browsing, path: str) -> Page:
    """Load a page twice, so that its font is in the cache: a page that the font reaches late does without."""
    page = await visitor.open("owner", path)
    await page.reload(wait_until="load")
    return page


async def _newest(site: Site, query: str) -> dict[str, str]:
    [letter] = (await site.get("/api/v1/dead-letters", q=query, size=1))["items"]
    return dict(letter)


async def _save(page: Page, name: str) -> None:
    await page.wait_for_timeout(SETTLING)
    await page.screenshot(path=OUT / f"{name}.png")
    await page.context.close()


if __name__ == "__main__":
    asyncio.run(take())
