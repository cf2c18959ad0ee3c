"""The page of a dead letter in a real browser: by keys alone, and without losing changes of others."""

from __future__ import annotations

import pytest
from playwright.async_api import Page
from tests.browser.browsing import Browsing, Theme, axe
from tests.browser.site import Site, order, until

API = "/api/v1/dead-letters"
TYPED_AT_ONCE = """(keys) => {
    for (const key of keys) {
        const options = { key, bubbles: true, cancelable: true };
        (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", options));
    }
    return document.activeElement.closest("form")?.dataset.action ?? "";
}"""


async def opened(shop: Site, visit: Browsing, role: str = "admin", **options: object) -> tuple[str, Page]:
    shop.trouble(addresses="bug")
    [letter] = await shop.dead_letters("checkout", order(1))
    return letter, await visit.open(role, f"/app/admin/dlq/{letter}", **options)  # type: ignore[arg-type]


async def stands(shop: Site, letter: str, state: str) -> bool:
    async def reached() -> bool:
        return bool((await shop.get(f"{API}/{letter}"))["state"] == state)

    return bool(await until(reached))


async def test_text_typed_right_after_a_key_is_not_another_key(shop: Site, visit: Browsing) -> None:
    """A reason such as "i paid it" must not ignore the letter that it resolves."""
    letter, page = await opened(shop, visit)
    await page.wait_for_selector("html[data-live]")
    assert await page.evaluate(TYPED_AT_ONCE, ["e", "i", "a"]) == f"POST {API}/{letter}/resolve"
    assert await page.locator("details[data-pop][open]").count() == 1


async def test_resolved_by_keys_and_undone_by_one(shop: Site, visit: Browsing) -> None:
    letter, page = await opened(shop, visit)
    await page.wait_for_selector("html[data-live]")
    await page.keyboard.press("e")
    await page.keyboard.type("i paid it by hand")
    await page.keyboard.press("Enter")
    assert await stands(shop, letter, "RESOLVED")
    assert (await shop.get(f"{API}/{letter}"))["resolution"] == "i paid it by hand"
    await page.wait_for_selector("#letter-head summary:has-text('Reopen')")
    await page.keyboard.press("u")
    assert await stands(shop, letter, "OPEN")


async def test_secrets_are_shown_here_and_now_only(shop: Site, visit: Browsing) -> None:
    letter, page = await opened(shop, visit)
    address = page.url
    await page.click("summary:has-text('Reveal')")
    await page.fill("form[data-reveals] input[name=reason]", "to compare")
    await page.click("text=Reveal payload")
    await page.wait_for_selector("#revealed:not([hidden])")
    assert page.url == address
    assert await page.locator("#revealed pre").text_content()
    await page.click("#revealed >> text=Hide")
    assert await page.locator("#revealed pre").text_content() == ""
    entries = (await shop.get("/api/v1/audit", subject=letter, action="dead_letter.revealed"))["items"]
    assert [each["detail"]["reason"] for each in entries] == ["to compare"]


async def test_changes_by_others_appear_without_moving_the_page(shop: Site, visit: Browsing) -> None:
    letter, page = await opened(shop, visit)
    await page.wait_for_selector("html[data-live=true]")
    await page.evaluate("document.querySelector('#attempts').dataset.kept = 'yes'")
    shop.trouble()
    await shop.post(f"{API}/{letter}/replay", {})
    await page.wait_for_selector("#letter-head >> text=Resolved")
    await page.wait_for_selector("#attempts [data-news]:not([hidden])")
    assert await page.locator("#attempts").get_attribute("data-kept") == "yes"


async def test_its_attempts_fit_into_their_card(scene: Site, tour: Browsing) -> None:
    """Repeated and replayed attempts are the widest."""
    for asked in ("is:open category:timeout", "is:resolved"):
        [letter] = (await scene.get(API, q=asked, size=1))["items"]
        page = await tour.open("admin", f"/app/admin/dlq/{letter['id']}")
        for width in (640, 1000, 1100, 1200, 1280, 1440):
            await page.set_viewport_size({"width": width, "height": 900})
            beyond = await page.locator("#attempts .scroll").evaluate("it => it.scrollWidth - it.clientWidth")
            assert beyond <= 0, f"{beyond} px at {width}"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1440])
async def test_it_can_be_read_by_everyone(shop: Site, visit: Browsing, theme: Theme, width: int) -> None:
    for role in ("viewer", "admin"):
        _, page = await opened(shop, visit, role, theme=theme, width=width)
        assert await axe(page) == []
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wide)
