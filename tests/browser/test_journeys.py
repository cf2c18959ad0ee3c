"""An operator at three in the morning, from the first glance to the end (W11, W12, P4, P8)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest
from playwright.async_api import FloatRect, Locator, Page, expect
from tests.browser.browsing import Browsing, axe
from tests.browser.site import PASSWORD, Site, contact, invoice, order, until

DLQ = "/app/admin/dlq"
FLAT = f"{DLQ}?view=flat"

RESOLVING = """async (id) => {
    const token = (await (await fetch("/api/v1/session")).json()).csrf_token;
    const headers = {"Content-Type": "application/json", "X-CSRF-Token": token};
    const path = `/api/v1/dead-letters/${id}/resolve`;
    return (await fetch(path, {method: "POST", headers, body: "{}"})).status;
}"""
"""What a page would do that showed the control anyway."""


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def letter_state(site: Site, letter: str) -> str:
    state: str = (await site.get(f"/api/v1/dead-letters/{letter}"))["state"]
    return state


async def test_find_out_whether_it_heals_itself(shop: Site, visit: Browsing) -> None:
    """From the overview, which separates needs you from heals itself, it takes two clicks to the verdict."""
    shop.trouble(addresses="bug")
    [letter] = await shop.dead_letters("checkout", order(1))
    shop.trouble(addresses="bug", stripe="503")
    held = await shop.start("checkout", *[order(number) for number in range(10, 30)])
    await until(lambda: _is_held(shop, held))
    page = await visit.open("viewer")
    needs, heals = (page.locator(f"section:has(#{each})") for each in ("needs-you", "heals-itself"))
    await expect(needs).to_contain_text("Needs you")
    await expect(heals).to_contain_text("Heals itself")
    await expect(heals).to_contain_text(re.compile(r"\d+ on hold"))
    await page.get_by_role("link", name=re.compile(r"1 open")).click()
    await page.locator("[data-row] a[data-open]").first.click()
    await page.locator("[data-row] a[data-open]").first.click()
    await page.wait_for_url(f"**{DLQ}/{letter}")
    await expect(page.get_by_text("Needs you").first).to_be_visible()
    await expect(page.get_by_text("Why it stopped")).to_be_visible()
    await expect(page.get_by_text("What to do")).to_be_visible()


async def _is_held(site: Site, runs: list[str]) -> bool:
    found = await site.get("/api/v1/runs", q="is:held", size=100)
    return len(found["items"]) >= 3


async def test_replay_one_by_four_keys(shop: Site, visit: Browsing) -> None:
    """j, r, Enter, Enter, and no click."""
    await _replay_one_by_four_keys(shop, visit)


async def test_replay_one_by_four_keys_on_postgres(postgres_shop: Site, postgres_visit: Browsing) -> None:
    await _replay_one_by_four_keys(postgres_shop, postgres_visit)


async def _replay_one_by_four_keys(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    shop.trouble()
    page = await visit.open("admin", FLAT)
    await press(page, "j", "r")
    await expect(page.get_by_role("button", name="Plan", exact=True)).to_be_focused()
    await press(page, "Enter")
    await expect(page.get_by_role("button", name="Start", exact=True)).to_be_focused()
    assert await letter_state(shop, letter) == "OPEN", "a plan starts nothing"
    await press(page, "Enter")
    await until(lambda: _is(shop, letter, "RESOLVED"))
    await page.goto(f"{DLQ}/{letter}")
    await expect(page.get_by_text("Resolved").first).to_be_visible()
    attempts = page.locator("#attempts tbody tr, table:has(caption:text('Attempts')) tbody tr")
    assert await attempts.count() >= 2, "every attempt stays"


async def _is(site: Site, letter: str, state: str) -> bool:
    return await letter_state(site, letter) == state


async def test_a_canary_replay_stops_itself_and_is_resumed_after_the_fix(shop: Site, visit: Browsing) -> None:
    shop.trouble(names="bug")
    letters = await shop.dead_letters("crm.sync", *[contact(number) for number in range(12)])
    group = (await shop.get(f"/api/v1/dead-letters/{letters[0]}"))["fingerprint"]
    page = await visit.open("admin", f"{DLQ}/groups/{group}")
    await press(page, "r")
    await page.get_by_text("Rollout").click()
    await page.get_by_label("Canary size").fill("3")
    await page.locator("dialog").get_by_label("Reason").fill("The names are fixed")
    await page.get_by_role("button", name="Plan", exact=True).click()
    await expect(page.get_by_role("heading", name="12 of 12 dead letters will be replayed")).to_be_visible()
    await page.get_by_role("button", name="Start", exact=True).click()
    await page.wait_for_url("**/app/admin/replays/*")
    await expect(page.get_by_text("Stopped automatically:")).to_be_visible()
    operation = page.url.rpartition("/")[2]
    assert (await shop.get(f"/api/v1/operations/{operation}"))["released"] == 3, "the canary, and no more"
    shop.trouble()
    await press(page, "p")
    await page.locator("details[open]").get_by_label("Reason").fill("Deployed the fix")
    await press(page, "Enter")
    await expect(page.get_by_role("heading", name="Done", exact=True)).to_be_visible()
    states = Counter([await letter_state(shop, letter) for letter in letters])
    assert states == {"RESOLVED": 9, "OPEN": 3}
    report = await shop.get(f"/api/v1/operations/{operation}/report")
    assert (report["items"]["SUCCEEDED"], report["items"]["FAILED"]) == (9, 3)


@pytest.mark.parametrize(("key", "word", "state"), [("e", "Resolve", "RESOLVED"), ("i", "Ignore", "IGNORED")])
async def test_one_key_undoes_a_closing(shop: Site, visit: Browsing, key: str, word: str, state: str) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open("admin", f"{DLQ}/{letter}")
    await press(page, key)
    await page.locator("details[open]").get_by_label("Reason").fill("By mistake")
    await press(page, "Enter")
    await until(lambda: _is(shop, letter, state))
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    await page.goto(DLQ)  # another page still shows it
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    await press(page, "u")
    await until(lambda: _is(shop, letter, "OPEN"))
    actions = [each["action"] for each in (await shop.get("/api/v1/audit"))["items"]]
    assert actions[:2] == ["dead_letter.reopened", f"dead_letter.{state.lower()}"]


async def test_an_action_affects_exactly_the_selected_rows_and_shows_their_number(
    shop: Site, visit: Browsing
) -> None:
    shop.trouble(recipients="bug")
    letters = await shop.dead_letters("invoice.send_email", *[invoice(number) for number in range(4)])
    page = await visit.open("admin", FLAT)
    await press(page, "j", "x", "j", "x")
    await expect(page.locator("[data-selected-number]").first).to_have_text("2")
    await page.locator("[data-bulk]").get_by_text("Archive", exact=True).click()
    await page.locator(
        "[data-bulk] details[open] button.primary, [data-bulk] details[open] .buttons button"
    ).first.click()
    await until(lambda: _number(shop, "is:archived", 2))
    await expect(page.locator("[data-row]")).to_have_count(2)
    await press(page, "u")
    await until(lambda: _number(shop, "is:archived", 0))
    assert await shop.get("/api/v1/dead-letters/count", q="is:open") == {
        "number": len(letters),
        "capped": False,
    }


async def _number(site: Site, query: str, number: int) -> bool:
    found: int = (await site.get("/api/v1/dead-letters/count", q=query))["number"]
    return found == number


@pytest.mark.parametrize("role", ["viewer", "staff"])
async def test_a_viewer_sees_no_controls_and_is_rejected_by_the_api(
    shop: Site, visit: Browsing, role: str
) -> None:
    """W12."""
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open(role, f"{DLQ}/{letter}")
    for word in ("Resolve", "Ignore", "Archive", "Reveal"):
        await expect(page.get_by_text(word, exact=True)).to_have_count(0)
    notes = page.get_by_role("button", name="Add note")
    await expect(notes).to_have_count(1 if role == "staff" else 0)
    visit.recorder.allow("status of 403")
    assert await page.evaluate(RESOLVING, letter) == 403
    assert await letter_state(shop, letter) == "OPEN"
    await page.goto(FLAT)
    await expect(page.locator("[data-row]")).to_have_count(1)
    await expect(page.get_by_text("Resolve", exact=True)).to_have_count(0)


async def test_a_viewer_plans_a_replay_and_cannot_start_it(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open("viewer", f"/app/admin/replays/new?ids={letter}")
    await page.get_by_role("button", name="Plan", exact=True).click()
    await expect(page.get_by_text("will be replayed").first).to_be_visible()
    await expect(page.get_by_role("button", name="Start", exact=True)).to_have_count(0)


async def test_the_banner_of_a_breaker_appears_and_goes(shop: Site, visit: Browsing) -> None:
    """P4: the dependency, the held work, the next probe, and that work resumes automatically."""
    page = await visit.open("viewer", DLQ)
    status = page.locator("#status")
    await expect(status).to_contain_text("All dependencies OK")
    before = await page.locator("h1").bounding_box()
    shop.trouble(stripe="503")
    runs = await shop.start("checkout", *[order(number) for number in range(20)])
    await expect(status).to_contain_text("stripe")
    await expect(status).to_contain_text(re.compile(r"will resume automatically"))
    assert await page.locator("h1").bounding_box() == before, "nothing moves"
    shop.trouble()
    await expect(status).to_contain_text("All dependencies OK")
    assert set((await shop.ended(runs)).values()) <= {"SUCCESS", "DLQ_PENDING"}


async def test_the_banner_and_the_overview_agree_about_a_breaker(shop: Site, visit: Browsing) -> None:
    """The banner said "failing" while the overview, read earlier, said "Closed" and "Heals itself 0"."""
    page = await visit.open("viewer", "/app/admin")
    breaker = page.locator("#breakers li", has_text="stripe")
    await expect(breaker).to_contain_text("Closed")
    shop.trouble(stripe="503")
    runs = await shop.start("checkout", *[order(number) for number in range(20)])
    await expect(page.locator("#status")).to_contain_text("stripe is failing")
    await expect(breaker).to_contain_text("Open")
    await expect(page.locator("[aria-labelledby=heals-itself]")).to_contain_text("on hold")
    shop.trouble()
    await expect(page.locator("#status")).to_contain_text("All dependencies OK")
    await expect(breaker).to_contain_text("Closed")
    await shop.ended(runs)


async def test_news_arrives_without_moving_a_row(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    await shop.dead_letters("invoice.send_email", *[invoice(number) for number in range(3)])
    page = await visit.open("viewer", FLAT)
    await expect(page.locator("[data-connection-word]")).to_have_text("Live")
    rows = page.locator("[data-row]")
    texts, place = await rows.all_inner_texts(), await rows.first.bounding_box()
    badge = page.locator("[data-attention]")
    await expect(badge).to_have_text("3")
    await shop.dead_letters("invoice.send_email", invoice(4), invoice(5))
    await expect(badge).to_have_text("5")
    news = page.locator("[data-news]")
    await expect(news).to_have_text("2 new")
    assert [each.split("\n")[0] for each in await rows.all_inner_texts()] == [
        each.split("\n")[0] for each in texts
    ]
    assert await rows.first.bounding_box() == place
    await news.click()
    await expect(rows).to_have_count(5)


async def test_a_lost_connection_is_shown_and_restored(shop: Site, visit: Browsing) -> None:
    page = await visit.open("viewer", DLQ)
    word = page.locator("[data-connection-word]")
    await expect(word).to_have_text("Live")
    visit.recorder.allow("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
    await asyncio.to_thread(shop.end)
    await expect(word).to_contain_text("Disconnected since")
    await asyncio.to_thread(shop.begin)
    await expect(word).to_have_text("Live")


async def test_a_deep_link_leads_through_signing_in(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open(None, f"{DLQ}/{letter}?compare=1,1")
    assert "/app/sign-in?next=" in page.url
    visit.recorder.allow("status of 401")
    await page.get_by_label("Name").fill("viewer@acme.example")
    await page.get_by_label("Password").fill("not this one")
    await press(page, "Enter")
    await expect(page.get_by_text("Wrong name or password.")).to_be_visible()
    await page.get_by_label("Password").fill(PASSWORD)
    await press(page, "Enter")
    await page.wait_for_url(f"**{DLQ}/{letter}?compare=1,1")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def test_a_one_time_link_signs_in_once(shop: Site, visit: Browsing) -> None:
    members = (await shop.get("/api/v1/members"))["items"]
    staff = next(each["id"] for each in members if each["role"] == "STAFF")
    link = (await shop.post(f"/api/v1/members/{staff}/link"))["url"]
    page = await visit.open(None, link.replace(shop.url, ""))
    assert "#" not in page.url, "the token does not stay in the history"
    await page.get_by_role("button", name="Sign in with this link").click()
    await page.wait_for_url("**/app/admin")
    visit.recorder.allow("status of 401")
    again = await visit.open(None, link.replace(shop.url, ""))
    await again.get_by_role("button", name="Sign in with this link").click()
    await expect(again.get_by_text("already been used")).to_be_visible()


async def test_a_link_that_is_pasted_into_an_open_sign_in_page_signs_in(shop: Site, visit: Browsing) -> None:
    """Only the part after the # changes, so the browser loads nothing."""
    members = (await shop.get("/api/v1/members"))["items"]
    staff = next(member["id"] for member in members if member["role"] == "STAFF")
    link = (await shop.post(f"/api/v1/members/{staff}/link"))["url"]
    page = await visit.open(None, "/app/sign-in")
    await expect(page.get_by_label("Password")).to_be_visible()
    await page.evaluate("(hash) => { location.hash = hash; }", link.partition("#")[2])
    await expect(page.get_by_label("Password")).to_be_hidden()
    assert "#" not in page.url, "the token does not stay in the history"
    await page.get_by_role("button", name="Sign in with this link").click()
    await page.wait_for_url("**/app/admin")


async def test_a_failed_run_is_retried_from_its_page(shop: Site, visit: Browsing) -> None:
    """P8."""
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    run = (await shop.get(f"/api/v1/dead-letters/{letter}"))["run_id"]
    shop.trouble()
    page = await visit.open("admin", f"/app/admin/runs/{run}")
    await page.get_by_text("Retry", exact=True).first.click()
    submit = page.locator("details[open] .buttons button")
    if await submit.count():
        await submit.first.click()
    assert await until(lambda: _succeeded(shop, run))


async def _succeeded(site: Site, run: str) -> bool:
    state: str = (await site.get(f"/api/v1/runs/{run}"))["state"]
    return state == "SUCCESS"


async def test_drift_between_plan_and_start_is_shown_with_the_changes(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    letters = await shop.dead_letters("invoice.send_email", *[invoice(number) for number in range(3)])
    shop.trouble()
    page = await visit.open("admin", f"/app/admin/replays/new?ids={','.join(letters)}")
    await page.get_by_role("button", name="Plan", exact=True).click()
    start = page.get_by_role("button", name="Start", exact=True)
    await expect(start).to_be_visible()
    await shop.post(f"/api/v1/dead-letters/{letters[0]}/resolve", {"reason": "somebody was faster"})
    visit.recorder.allow("status of 409")
    await start.click()
    await expect(page.get_by_text(letters[0][:8]).first).to_be_visible()
    others = page.get_by_role("button", name="Start the other 2")
    await expect(others).to_be_visible()
    await shop.post(f"/api/v1/dead-letters/{letters[1]}/resolve", {"reason": "and once more"})
    await others.click()
    await expect(page.get_by_text("2 dead letters have changed")).to_be_visible()
    await page.get_by_role("button", name="Start the other 1").click()
    await until(lambda: _number(shop, "is:resolved", 3))


async def test_two_people_on_one_letter_see_each_other(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open("admin", f"{DLQ}/{letter}")
    await shop.post(f"/api/v1/dead-letters/{letter}/assign", {"name": "somebody else"})
    visit.recorder.allow("status of 412", "status of 409")
    await press(page, "e", "Enter")
    await expect(page.get_by_text(re.compile("changed", re.IGNORECASE)).first).to_be_visible()
    assert await letter_state(shop, letter) == "OPEN"


async def test_a_view_is_saved_under_a_name_for_everyone(shop: Site, visit: Browsing) -> None:
    page = await visit.open("staff", f"{DLQ}?q=is:any+workflow:checkout")
    await page.get_by_text("Views").first.click()
    await page.get_by_label("Save current view as").fill("Checkout")
    await press(page, "Enter")
    await expect(page.get_by_text("View saved")).to_be_visible()
    other = await visit.open("viewer", DLQ)
    await other.get_by_text("Views").first.click()
    await other.get_by_role("link", name="Checkout").click()
    await expect(other.locator("[data-search]")).to_have_value("is:any workflow:checkout")


async def test_commands_and_links_are_copied(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open("viewer", FLAT, permissions=["clipboard-read", "clipboard-write"])
    await press(page, "c")
    await expect(page.locator("#toasts")).to_contain_text("Copied")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("redrive dlq list")
    assert letter


async def box_of(element: Locator) -> FloatRect:
    box = await element.bounding_box()
    assert box is not None
    return box


async def test_copy_buttons_are_icons_with_names_and_on_a_phone_a_menu(shop: Site, visit: Browsing) -> None:
    page = await visit.open("viewer", FLAT)
    for name in ("Copy link", "Copy as CLI command"):
        button = page.get_by_role("button", name=name, exact=True)
        await expect(button.locator("svg")).to_be_visible()
        assert (await box_of(button))["width"] < 40, name
    phone = await visit.open("viewer", FLAT, width=390)
    await phone.get_by_role("button", name="More").click()
    link = phone.get_by_role("button", name="Copy link", exact=True)
    assert (await box_of(link))["width"] > 100, "its label is visible"
    assert await axe(phone) == []


async def test_a_long_title_takes_two_lines(shop: Site, visit: Browsing) -> None:
    shop.trouble(recipients="bug")
    [letter] = await shop.dead_letters("invoice.send_email", invoice(1))
    page = await visit.open("viewer", f"{DLQ}/{letter}", width=390)
    title = page.locator("h1")
    one_line = (await box_of(title))["height"]
    await title.evaluate("(it) => { it.textContent = 'a long message '.repeat(60); }")
    two_lines = (await box_of(title))["height"]
    assert two_lines <= 2.1 * one_line or two_lines < 60
    assert await title.get_attribute("title")


async def test_the_sign_in_button_is_centered_and_names_of_variables_are_whole(
    shop: Site, visit: Browsing
) -> None:
    page = await visit.open(None, "/app/sign-in")
    button = page.get_by_role("button", name="Sign in", exact=True)
    assert await button.evaluate("(it) => getComputedStyle(it).justifyContent") == "center"
    settings = await visit.open("owner", "/app/admin/settings?section=server", width=1000)
    heights = await settings.locator("td code.unbroken").evaluate_all(
        "(all) => all.map((it) => it.getClientRects().length)"
    )
    assert heights, "there are settings"
    assert set(heights) == {1}, "no name is broken into two lines"


async def test_theme_and_zone_are_chosen_and_kept(shop: Site, visit: Browsing) -> None:
    page = await visit.open("viewer", DLQ, width=390)
    await page.locator(".me > summary").click()
    await page.get_by_label("Theme").select_option("dark")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.goto("/app/admin/audit")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_an_owner_changes_which_failures_become_dead_letters(shop: Site, visit: Browsing) -> None:
    page = await visit.open("owner", "/app/admin/settings?section=dead-letters")
    await page.get_by_text("Change strategy").first.click()
    form = page.locator("form.pop", has_text="Strategy")
    await form.locator("select").select_option("manual")
    await form.get_by_label("Queue").fill("dlq:mail")
    await form.get_by_label("Reason").fill("until Monday")
    await form.get_by_role("button").click()
    row = page.locator("table.strategies tr", has_text="dlq:mail")
    await expect(row).to_contain_text("manual")
    await expect(row).to_contain_text("until Monday")
    [_, stored] = (await shop.get("/api/v1/strategies"))["items"]
    assert (stored["queue"], stored["strategy"], stored["reason"]) == ("dlq:mail", "manual", "until Monday")

    await row.get_by_role("button", name="Reset").click()
    await expect(row).to_have_count(0)
    [line] = (await shop.get("/api/v1/strategies"))["items"]
    assert (line["queue"], line["strategy"]) == (None, "automatic")
