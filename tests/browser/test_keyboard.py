"""A whole session without a mouse."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect
from tests.browser.browsing import Browsing, go
from tests.browser.routes import ADMIN, routes
from tests.browser.site import PASSWORD, Site, invoice, until

FOCUSED = """() => {
    const it = document.activeElement;
    if (!it || it === document.body) return null;
    const [box, style] = [it.getBoundingClientRect(), getComputedStyle(it)];
    const [x, y] = [box.left + Math.min(box.width, 40) / 2, box.top + Math.min(box.height, 24) / 2];
    const there = document.elementFromPoint(x, y);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const said = (it.getAttribute("aria-label") ?? it.textContent ?? "").trim().replace(/\\s+/g, " ");
    const hides = (other) => !it.contains(other) && !other.contains(it) && !it.labels?.[0]?.contains(other);
    return {
        name: `${it.localName} ${said.slice(0, 60)}`,
        marked: outlined || style.boxShadow !== "none",
        seen: box.width > 0 && box.height > 0 && x >= 0 && x <= innerWidth && y >= 0 && y <= innerHeight,
        covered: Boolean(there) && hides(there),
        place: it.closest("dialog, main, header, #status, #toasts")?.localName ?? "body",
    };
}"""
ORDERLY = "() => [...document.querySelectorAll('[tabindex]')].filter((each) => each.tabIndex > 0).length"
MAX_COUNT = 600


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def walked(page: Page) -> list[dict[str, Any]]:
    """Return every stop of the Tab key, from the top of the page to its end."""
    stops: list[dict[str, Any]] = []
    await page.evaluate(
        "() => { document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0) }"
    )
    for _ in range(MAX_COUNT):
        await press(page, "Tab")
        stop = await page.evaluate(FOCUSED)
        if stop is None or (stops and stop == stops[0]):
            break
        stops.append(stop)
    return stops


async def test_every_stop_of_the_tab_key_is_seen(tour: Browsing) -> None:
    """In the order of the page, navigation before content, always visible and always marked."""
    page = await tour.open("owner", f"{ADMIN}/keys")
    known = {route.name: route.path for route in await routes(tour.site)}
    faults = []
    for name in ("overview", "letter-retried", "group", "breakers", "settings", "audit"):
        await go(page, known[name])
        assert await page.evaluate(ORDERLY) == 0
        stops = await walked(page)
        assert 10 < len(stops) < MAX_COUNT, (name, len(stops))
        assert str(stops[0]["name"]).startswith("a Skip to content")
        places = [each["place"] for each in stops]
        assert places == sorted(places, key=["body", "header", "div", "main"].index), (name, places)
        bad = [each for each in stops if each["covered"] or not (each["marked"] and each["seen"])]
        faults += [f"{name}: {each}" for each in bad]
    assert not faults, "\n".join(faults)


async def test_skipping_leads_past_the_navigation(tour: Browsing) -> None:
    page = await tour.open("viewer", f"{ADMIN}/dlq")
    await press(page, "Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    await press(page, "Enter", "Tab")
    stop = await page.evaluate(FOCUSED)
    assert stop["place"] == "main", stop


async def test_reading_by_keys(tour: Browsing) -> None:
    """Signing in, navigating, searching, turning pages, and opening the help."""
    page = await tour.open(None, "/app/sign-in")
    await expect(page.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("viewer@acme.example")
    await press(page, "Tab")
    await page.keyboard.type(PASSWORD)
    await press(page, "Enter")
    await page.wait_for_url(f"**{ADMIN}")
    for key, path in {
        "d": "/dlq",
        "p": "/replays",
        "b": "/breakers",
        "q": "/queues",
        "w": "/workers",
    }.items():
        await press(page, "g", key)
        await page.wait_for_url(f"**{ADMIN}{path}")
    for key, path in {"a": "/audit", "s": "/settings", "o": "", "r": "/runs"}.items():
        await press(page, "g", key)
        await page.wait_for_url(f"**{ADMIN}{path}")
    await page.wait_for_selector("html[data-live]")
    await press(page, "n")
    await page.wait_for_url("**cursor=**")
    await page.wait_for_selector("html[data-live]")
    await press(page, "/")
    await expect(page.locator("[data-search]")).to_be_focused()
    await page.keyboard.type("is:held")
    await press(page, "Enter")
    await page.wait_for_url("**q=is%3Aheld**")
    await page.wait_for_selector("html[data-live]")
    await press(page, "j", "j", "k")
    await expect(page.locator("[data-row]").first).to_be_focused()
    await press(page, "o")
    await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


async def test_help_is_a_key_away_and_gives_the_focus_back(tour: Browsing) -> None:
    page = await tour.open("viewer", f"{ADMIN}/dlq")
    await page.wait_for_selector("html[data-live]")
    await press(page, "j", "j")
    row = page.locator("[data-row]").nth(1)
    await expect(row).to_be_focused()
    await press(page, "?")
    dialog = page.locator("#dialog")
    await expect(dialog.get_by_role("heading", name="Keyboard")).to_be_visible()
    await press(page, "j", "g", "d")  # the open dialog gets the keys
    await expect(dialog).to_be_visible()
    await press(page, "Escape")
    await expect(dialog).to_be_hidden()
    await expect(row).to_be_focused()


async def test_sorting_by_keys(tour: Browsing) -> None:
    page = await tour.open("viewer", f"{ADMIN}/dlq?view=flat")
    await page.get_by_role("link", name="Oldest").focus()
    await press(page, "Enter")
    await page.wait_for_url("**sort=oldest**")


async def test_a_dialog_keeps_the_focus_and_gives_it_back(shop: Site, visit: Browsing) -> None:
    page, _ = await _with_letters(shop, visit, 2)
    await press(page, "j")
    row = page.locator("[data-row]").first
    await expect(row).to_be_focused()
    await press(page, "r")
    await expect(page.get_by_role("button", name="Plan", exact=True)).to_be_focused()
    for key in ["Tab"] * 20 + ["Shift+Tab"] * 25:
        await press(page, key)
        stop = await page.evaluate(FOCUSED)
        assert stop is None or stop["place"] == "dialog", stop  # None: the browser's own controls
    await press(page, "Escape")
    await expect(page.locator("#dialog")).to_be_hidden()
    await expect(row).to_be_focused()


async def test_escape_closes_parts_that_open_in_place(shop: Site, visit: Browsing) -> None:
    page, _ = await _with_letters(shop, visit, 1)
    await press(page, "j", "x", "e")
    reason = page.locator("details[open]").get_by_label("Reason")
    await expect(reason).to_be_focused()
    await press(page, "Escape")
    await expect(page.locator("details[data-pop][open]")).to_have_count(0)
    await expect(page.locator("[data-bulk] summary", has_text="Resolve")).to_be_focused()
    await expect(page.locator("[data-selected-number]").first).to_have_text("1")
    await press(page, "Escape")
    await expect(page.locator("[data-bulk]")).to_be_hidden()


async def test_several_are_selected_closed_and_brought_back_by_keys(shop: Site, visit: Browsing) -> None:
    page, letters = await _with_letters(shop, visit, 3)
    await press(page, "j", "x", "j", "x", "e")
    await expect(page.locator("details[open]").get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("paid by hand")
    await press(page, "Enter")
    await until(lambda: _number(shop, "is:resolved", 2))
    await expect(page.locator("[data-row]")).to_have_count(1)
    await press(page, "u")
    await until(lambda: _number(shop, "is:open", len(letters)))


async def test_signing_out_by_keys(shop: Site, visit: Browsing) -> None:
    page = await visit.open(None, "/app/sign-in")
    await expect(page.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("staff@acme.example")
    await press(page, "Tab")
    await page.keyboard.type(PASSWORD)
    await press(page, "Enter")
    await page.wait_for_url(f"**{ADMIN}")
    await page.wait_for_selector("html[data-live]")
    await page.locator(".me > summary").focus()
    await press(page, "Enter")
    for _ in range(10):
        if "Sign out" in (await page.evaluate(FOCUSED))["name"]:
            break
        await press(page, "Tab")
    await press(page, "Enter")
    await page.wait_for_url("**/app/sign-in")
    await go(page, ADMIN)
    assert "/app/sign-in" in page.url


async def _with_letters(shop: Site, visit: Browsing, number: int) -> tuple[Page, list[str]]:
    shop.trouble(recipients="bug")
    letters = await shop.dead_letters("invoice.send_email", *[invoice(each) for each in range(number)])
    page = await visit.open("admin", f"{ADMIN}/dlq?view=flat")
    await page.wait_for_selector("html[data-live]")
    return page, letters


async def _number(site: Site, query: str, number: int) -> bool:
    found: int = (await site.get("/api/v1/dead-letters/count", q=query))["number"]
    return found == number
