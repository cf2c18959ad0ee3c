"""Triage with the keyboard: one row, several, all that match; and every change can be undone."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.browser.browsing import Browsing, axe
from tests.browser.conftest import OpenPage
from tests.browser.site import Site, contact, order

DLQ = "/app/admin/dlq"


async def fail(shop: Site) -> None:
    """Create six dead letters of one failure, then three of another."""
    shop.trouble(stripe="402", crm="403")
    await shop.dead_letters("checkout", *[order(number) for number in range(6)])
    await shop.dead_letters("crm.sync", *[contact(number) for number in range(3)])


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_a_failure_is_resolved_by_one_key_and_that_is_undone_by_one(
    shop: Site, visit: Browsing
) -> None:
    await fail(shop)
    page = await visit.open("admin", DLQ)
    rows, toast = page.locator("[data-row]"), page.locator(".toast")
    await expect(rows).to_have_count(2)
    await press(page, "j", "e")
    await expect(toast).to_contain_text("Resolved 3 dead letters")
    await expect(rows).to_have_count(1)
    await expect(rows.first).to_be_focused()
    await press(page, "u")
    await expect(toast).to_contain_text("Undone")
    await expect(rows).to_have_count(2)


async def test_a_key_does_nothing_without_a_selected_row(shop: Site, visit: Browsing) -> None:
    await fail(shop)
    page = await visit.open("admin", DLQ)
    await expect(page.locator(".row-acts button")).to_have_count(4)
    await press(page, "e", "i", "j", "?")
    await expect(page.locator("#dialog")).to_contain_text("Keyboard")
    assert (await shop.get("/api/v1/dead-letters/count", q="is:open"))["number"] == 9


async def test_keys_act_on_the_selected_rows(shop: Site, visit: Browsing) -> None:
    await fail(shop)
    page = await visit.open("admin", DLQ)
    await press(page, "j", "x", "j", "x")
    await expect(page.locator(".chosen-number")).to_have_text("9 dead letters in 2 failures")
    await press(page, "i")
    await page.keyboard.type("known")
    await press(page, "Enter")
    await expect(page.locator(".toast")).to_contain_text("Ignored 9 dead letters")
    await expect(page.locator(".empty-title")).to_contain_text("No dead letters need attention")
    await page.click(".toast button")
    await expect(page.locator("[data-row]")).to_have_count(2)


async def test_a_replay_shows_its_plan_first(shop: Site, visit: Browsing) -> None:
    await fail(shop)
    page = await visit.open("admin", DLQ)
    await press(page, "j", "r")
    await expect(page.locator("#dialog")).to_contain_text("Replay 3 dead letters")


async def test_an_action_that_some_of_them_do_not_allow_is_not_offered(shop: Site, visit: Browsing) -> None:
    await fail(shop)
    [first, *_] = (await shop.get("/api/v1/dead-letters", q="is:open"))["items"]
    await shop.post("/api/v1/dead-letters/resolve", {"ids": [first["id"]]})
    page = await visit.open("admin", f"{DLQ}?q=is:any&view=flat")
    await page.check("[data-select-all]")
    await expect(page.locator("[data-selected-reason]")).to_contain_text("1 is resolved")
    await expect(page.locator(".bulk > a[inert]")).to_have_text("Replay…")
    await page.uncheck(f"input[value='{first['id']}']")
    await expect(page.locator("[data-selected-reason]")).to_have_text("")
    await expect(page.locator(".chosen-number")).to_have_text("8 dead letters")
    await press(page, "t")
    await page.keyboard.type("vip")
    await press(page, "Enter")
    await expect(page.locator(".toast")).to_contain_text("Tagged 8 dead letters")


async def test_new_ones_wait_until_they_are_asked_for(shop: Site, visit: Browsing) -> None:
    """UI, rule 2."""
    page = await visit.open("viewer", DLQ)
    await expect(page.locator("html")).to_have_attribute("data-live", "true")
    await fail(shop)
    await expect(page.locator("[data-news]")).to_have_text("9 new")
    await expect(page.locator("[data-row]")).to_have_count(0)
    await page.click("[data-news]")
    await expect(page.locator("[data-row]")).to_have_count(2)


async def test_a_group_is_resolved_with_its_letters_and_that_is_undone(shop: Site, visit: Browsing) -> None:
    await fail(shop)
    [group, *_] = (await shop.get("/api/v1/groups"))["items"]
    page = await visit.open("admin", f"{DLQ}/groups/{group['fingerprint']}")
    marks = page.locator(".group-head .marks")
    await press(page, "e", "Enter")
    await expect(page.locator(".toast")).to_contain_text("Resolved, with 3 dead letters")
    await expect(marks).to_contain_text("Resolved")
    await press(page, "u")
    await expect(marks).to_contain_text("Open")
    await expect(page.locator(".answers")).to_contain_text("3 dead letters need attention")
    await press(page, "i")
    await page.select_option("select[name=until]", "3600")
    await page.fill("input[name=beyond]", "5")
    await press(page, "Enter")
    await expect(marks).to_contain_text("Ignored")
    await expect(page.locator(".answers")).to_contain_text("until 8 occurrences, 3 so far")


async def test_the_list_is_for_everyone_on_every_screen(open_page: OpenPage) -> None:
    for theme, width in (("light", 1440), ("dark", 390)):
        for path in (DLQ, f"{DLQ}?view=flat", f"{DLQ}?q=is:any"):
            page = await open_page("owner", path, theme=theme, width=width)
            assert await axe(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
