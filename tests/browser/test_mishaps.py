"""Mishaps of a page: other tabs, late or missing responses, rejected streams."""

from __future__ import annotations

import re

from playwright.async_api import Page, Route, expect
from tests.browser.browsing import Browsing
from tests.browser.site import Site, invoice, until

DLQ = "/app/admin/dlq"
FLAT = f"{DLQ}?view=flat"

REFRESHING = """async () => {
    const modules = document.querySelector("script[type=module]").src;
    (await import(modules.replace("app.js", "refresh.js"))).refresh("#totals");
}"""


async def _letters(shop: Site, *numbers: int) -> list[str]:
    shop.trouble(recipients="bug")
    return await shop.dead_letters("invoice.send_email", *[invoice(number) for number in numbers])


async def _is(site: Site, letter: str, state: str) -> bool:
    found: str = (await site.get(f"/api/v1/dead-letters/{letter}"))["state"]
    return found == state


async def test_a_tab_of_one_organization_does_nothing_in_another(shop: Site, visit: Browsing) -> None:
    await shop.post("/api/v1/organizations", {"name": "elsewhere"})
    [letter] = await _letters(shop, 1)
    page = await visit.open("owner", f"{DLQ}/{letter}")
    other = await page.context.new_page()
    await other.goto("/app/admin/settings?section=organizations")
    await other.get_by_role("row", name="elsewhere").get_by_role("button", name="Switch").click()
    await other.wait_for_url("**/app/admin")
    visit.recorder.allow("status of 409", "status of 404", "Response Status Error Code")
    await page.keyboard.press("e")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("you have switched to").first).to_be_visible()
    assert await _is(shop, letter, "OPEN")


async def test_a_dialog_opens_while_another_part_of_the_page_is_being_read(
    shop: Site, visit: Browsing
) -> None:
    await _letters(shop, 1)
    page = await visit.open("admin", FLAT)
    waiting: list[Route] = []

    async def keep(route: Route) -> None:
        if route.request.headers.get("hx-request") and "view=flat" in route.request.url:
            waiting.append(route)
        else:
            await route.continue_()

    await page.route("**/app/admin/dlq**", keep)
    await page.evaluate(REFRESHING)
    await until(lambda: _true(bool(waiting)))
    await page.keyboard.press("j")
    await page.keyboard.press("r")
    await expect(page.get_by_role("button", name="Plan", exact=True)).to_be_focused()
    assert page.url.endswith(FLAT)
    for each in waiting:
        await each.continue_()


async def _true(value: bool) -> bool:
    return value


async def test_a_new_key_is_shown_although_the_page_cannot_be_read_again(shop: Site, visit: Browsing) -> None:
    page = await visit.open("owner", "/app/admin/settings?section=keys")
    await page.route("**/app/admin/settings**", lambda route: route.abort())
    visit.recorder.allow("ERR_FAILED", "htmx:", "Failed to load resource")
    await page.locator("summary", has_text="Create key").click()
    await page.locator("details[open]").get_by_label("Name").fill("deployment")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog input")).to_have_value(re.compile("^rdk_"))


async def test_the_enter_key_alone_revokes_no_key(shop: Site, visit: Browsing) -> None:
    """What cannot be undone was confirmed by the key that had opened the question."""
    await shop.post("/api/v1/keys", {"name": "deployment", "role": "VIEWER"})
    page = await visit.open("owner", "/app/admin/settings?section=keys")
    row = page.locator("[data-row]", has_text="deployment")
    await row.get_by_role("button", name="Revoke").press("Enter")
    await expect(page.locator("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog")).to_be_hidden()
    await expect(row).to_contain_text("Valid")
    await row.get_by_role("button", name="Revoke").click()
    await page.locator("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_contain_text("Revoked")


async def test_a_new_key_is_copied_and_the_button_says_so(shop: Site, visit: Browsing) -> None:
    page = await visit.open(
        "owner", "/app/admin/settings?section=keys", permissions=["clipboard-read", "clipboard-write"]
    )
    await page.locator("summary", has_text="Create key").click()
    await page.locator("details[open]").get_by_label("Name").fill("deployment")
    await page.keyboard.press("Enter")
    await page.locator("dialog").get_by_role("button", name="Copy").click()
    await expect(page.locator("dialog").get_by_role("button", name="Copied")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")).startswith("rdk_")


async def test_one_failed_answer_does_not_keep_everything_from_working(shop: Site, visit: Browsing) -> None:
    [letter] = await _letters(shop, 1)
    page = await visit.open("admin", f"{DLQ}/{letter}")
    broken = '{"detail": "the database cannot be used at the moment", "code": "database"}'
    await page.route("**/api/v1/session", lambda route: route.fulfill(status=503, body=broken), times=1)
    visit.recorder.allow("status of 503")
    await page.keyboard.press("e")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("the database cannot be used at the moment")).to_be_visible()
    await page.locator("details[open] .buttons button").first.click()
    await until(lambda: _is(shop, letter, "RESOLVED"))


async def test_a_refused_stream_is_tried_again(shop: Site, visit: Browsing) -> None:
    page = await visit.open("viewer", "/app/admin/audit")
    await page.route("**/api/v1/events**", lambda route: route.fulfill(status=503, body=""), times=1)
    visit.recorder.allow("status of 503")
    await page.reload(wait_until="load")
    word = page.locator("[data-connection-word]")
    await expect(word).to_contain_text("Disconnected since")
    await expect(word).to_have_text("Live")


async def test_changes_behind_a_hidden_tab_are_shown_afterwards(shop: Site, visit: Browsing) -> None:
    await _letters(shop, 1)
    page = await visit.open("viewer", FLAT)
    await expect(page.locator("[data-connection-word]")).to_have_text("Live")
    await _letters(shop, 2)
    await expect(page.locator("[data-news]")).to_have_text("1 new")
    await _look_away(page, True)
    await _letters(shop, 3, 4)
    await _look_away(page, False)
    await expect(page.locator("[data-news]")).to_have_text("3 new")


async def _look_away(page: Page, away: bool) -> None:
    """Act as if another tab were in front."""
    await page.evaluate(
        """(away) => {
        Object.defineProperty(document, "hidden", {value: away, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }""",
        away,
    )
