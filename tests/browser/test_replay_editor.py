"""Repairing a payload in the browser: redacted values stay as stored, and a review precedes the start."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Page, expect
from tests.browser.browsing import Browsing, Theme, axe
from tests.browser.site import Site, order, until

API = "/api/v1/dead-letters"
PRECISE = 2**53 + 1
"""An integer that JavaScript rounds."""


async def failed(shop: Site) -> str:
    shop.trouble(addresses="bug")
    [letter] = await shop.dead_letters("checkout", order(1, reference=PRECISE, weight=1.0))
    shop.trouble()
    return letter


async def edited(page: Page, **changes: object) -> None:
    """Change fields in the text, as a person would."""
    field = page.locator("textarea[name=payload]")
    await field.fill(json.dumps({**json.loads(await field.input_value()), **changes}, indent=2))


async def resolved(shop: Site, letter: str) -> bool:
    async def reached() -> bool:
        return bool((await shop.get(f"{API}/{letter}"))["state"] == "RESOLVED")

    return bool(await until(reached))


async def test_a_payload_is_edited_reviewed_and_replayed(shop: Site, visit: Browsing) -> None:
    letter = await failed(shop)
    page = await visit.open("admin", f"/app/admin/dlq/{letter}")
    await page.click("text=Edit and replay…")
    await page.wait_for_url(f"**/dlq/{letter}/replay")
    assert "[redacted:" in await page.locator("textarea[name=payload]").input_value()
    assert await page.locator("#review").is_hidden()
    await edited(page, currency="EUR")
    await page.click("text=Review changes")
    review = page.locator("#review")
    await expect(review.locator("h2")).to_have_text("1 change")
    await expect(review.locator("tbody tr")).to_have_text(['currency"CHF""EUR"'])
    assert (await shop.get(f"{API}/{letter}"))["state"] == "OPEN"
    await review.locator("button.primary").click()  # without a reason, the browser asks for one
    assert (await shop.get(f"{API}/{letter}"))["state"] == "OPEN"
    await review.locator("input[name=reason]").fill("the importer wrote the wrong currency")
    await review.locator("button.primary").click()
    await page.wait_for_url(f"**/dlq/{letter}")
    assert await resolved(shop, letter)
    await expect(page.locator("#history")).to_contain_text("replayed it with an edited payload (currency)")
    history = await shop.get(f"{API}/{letter}/history")
    assert history["replays"][0]["edit"] == [{"path": "currency", "before": "CHF", "after": "EUR"}]
    [asked] = (await shop.get("/api/v1/audit", subject=letter, action="replay.requested"))["items"]
    assert asked["detail"]["changed_fields"] == ["currency"]


async def test_a_mark_in_another_place_is_refused_with_its_path(shop: Site, visit: Browsing) -> None:
    letter = await failed(shop)
    page = await visit.open("admin", f"/app/admin/dlq/{letter}/replay")
    visit.recorder.allow("status of 422")
    await edited(page, pan="[redacted:card]")
    await page.click("text=Review changes")
    await expect(page.locator("#edit [data-problem]")).to_contain_text("at pan")
    assert await page.locator("#review").is_hidden()
    await page.locator("textarea[name=payload]").fill('{"currency": ')
    await page.click("text=Review changes")
    await expect(page.locator("#edit [data-problem]")).to_contain_text("isn't valid JSON")


async def test_an_edit_after_the_review_has_to_be_reviewed_too(shop: Site, visit: Browsing) -> None:
    letter = await failed(shop)
    page = await visit.open("admin", f"/app/admin/dlq/{letter}/replay")
    await page.click("text=Review changes")
    await expect(page.locator("#review h2")).to_have_text("0 changes")
    await expect(page.locator("#review")).to_contain_text("The payload is unchanged.")
    await edited(page, currency="EUR")
    assert await page.locator("#review").is_hidden()
    await page.click("text=Review changes")
    await expect(page.locator("#review h2")).to_have_text("1 change")
    await page.click("text=Keep editing")
    assert await page.evaluate("document.activeElement.name") == "payload"


async def test_an_earlier_step_is_chosen_in_the_dialog(shop: Site, visit: Browsing) -> None:
    letter = await failed(shop)
    page = await visit.open("admin", f"/app/admin/dlq/{letter}")
    await page.wait_for_selector("html[data-live]")
    await page.keyboard.press("r")
    await page.click("dialog a:has-text('1 reserve')")
    await page.wait_for_url("**/replay?step=1")
    await expect(page.locator("[aria-current=step]")).to_contain_text("1 reserve")
    await page.click("text=Review changes")
    await expect(page.locator("[data-review-steps]")).to_contain_text("1 reserve")
    await page.click("#review button.primary")
    await page.wait_for_url(f"**/dlq/{letter}")
    assert await resolved(shop, letter)
    [replay] = (await shop.get(f"{API}/{letter}/history"))["replays"]
    assert (replay["from_step_index"], replay["edit"]) == (0, None)


async def test_without_the_permission_to_replay_there_is_no_editor(shop: Site, visit: Browsing) -> None:
    letter = await failed(shop)
    page = await visit.open("staff", f"/app/admin/dlq/{letter}")
    assert await page.locator("text=Edit and replay").count() == 0
    visit.recorder.allow("status of 403")
    page = await visit.open("staff", f"/app/admin/dlq/{letter}/replay")
    assert await page.locator("textarea[name=payload]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1440])
async def test_it_can_be_used_by_everyone(shop: Site, visit: Browsing, theme: Theme, width: int) -> None:
    letter = await failed(shop)
    page = await visit.open("admin", f"/app/admin/dlq/{letter}/replay", theme=theme, width=width)
    await edited(page, currency="EUR")
    await page.click("text=Review changes")
    await expect(page.locator("#review")).to_be_visible()
    assert await axe(page) == []
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not await page.evaluate(wide)
