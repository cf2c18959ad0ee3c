"""Without JavaScript: every page is readable, and shows no control that needs a script."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Page, expect
from tests.browser.browsing import Browsing, go
from tests.browser.routes import ADMIN, routes
from tests.browser.site import PASSWORD, Site

_NAMES = ("action", "copy", "copy-link", "copy-of", "look", "select-all", "hide", "close")
PRETENDING = ", ".join(f"[data-{each}]" for each in _NAMES)
"""Controls that need a script."""


async def reading(tour: Browsing, path: str = ADMIN) -> Page:
    return await tour.open("owner", path, javascript=False)


def asked(page: Page) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


async def number(site: Site, query: str) -> int:
    found: int = (await site.get("/api/v1/dead-letters/count", q=query))["number"]
    return found


async def test_signing_in_and_the_first_look(tour: Browsing) -> None:
    page = await tour.open(None, f"{ADMIN}?span=6h", javascript=False)
    tour.recorder.allow("status of 401")
    await page.get_by_label("Name").fill("viewer@acme.example")
    await page.get_by_label("Password").fill("not this one")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("Wrong name or password.")).to_be_visible()
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"**{ADMIN}?span=6h")
    needs = await number(tour.site, "is:open,exhausted")
    await expect(page.locator("section:has(#needs-you)")).to_contain_text(f"{needs:,}")
    await expect(page.locator("section:has(#heals-itself)")).to_contain_text("on hold")
    await expect(page.locator("#status")).to_contain_text("stripe")
    await expect(page.locator("svg").first).to_be_visible()


async def test_it_says_that_changing_things_needs_scripts(tour: Browsing) -> None:
    page = await reading(tour)
    words = page.locator("noscript p")
    await expect(words).to_be_visible()
    await expect(words).to_have_text(re.compile("JavaScript is off"))
    await expect((await tour.open("owner")).locator("noscript")).to_be_hidden()


async def test_no_control_pretends_to_work(tour: Browsing) -> None:
    """No page has a control without effect, or a form that leads nowhere."""
    page = await reading(tour)
    for route in await routes(tour.site):
        if route.role == "owner" and route.console is None:
            await go(page, route.path)
            shown = page.locator(f":is({PRETENDING}):visible")
            assert (
                await shown.evaluate_all("(all) => all.map((each) => each.outerHTML.slice(0, 200))") == []
            ), route.name


async def test_dead_letters_are_found_by_links_and_forms(tour: Browsing) -> None:
    page = await reading(tour, f"{ADMIN}/dlq")
    groups = await page.locator("[data-row]").count()
    assert groups > 5
    await page.get_by_label("Query").fill("is:open category:timeout")
    await page.get_by_role("button", name="Search").click()
    assert asked(page)["q"] == "is:open category:timeout"
    await expect(page.locator("[data-row]").first).to_be_visible()
    assert await page.locator("[data-row]").count() < groups
    await page.get_by_role("link", name="Clear").click()
    await page.get_by_role("link", name="List").click()
    first = await page.locator("[data-row] a[data-open]").first.get_attribute("href")
    await page.get_by_role("link", name="Next page").click()
    await expect(page.locator("[data-row]").first).to_be_visible()
    assert await page.locator("[data-row] a[data-open]").first.get_attribute("href") != first
    await page.get_by_role("link", name="First page").click()
    assert await page.locator("[data-row] a[data-open]").first.get_attribute("href") == first
    await page.get_by_role("link", name="Oldest").click()
    assert await page.locator("[data-row] a[data-open]").first.get_attribute("href") != first
    await page.get_by_role("link", name=re.compile("^Resolved")).click()
    assert asked(page)["q"] == "is:resolved"
    await page.locator("summary", has_text="Views").click()
    await page.get_by_role("link", name="Payments that need us").click()
    assert asked(page)["q"] == "is:open queue:payments"


async def test_a_failure_is_read_from_its_group_to_its_run(tour: Browsing) -> None:
    page = await reading(tour, f"{ADMIN}/dlq?q=category:timeout+step:collect_figures+is:open")
    await page.locator("[data-row] a[data-open]").first.click()
    await expect(page.get_by_role("heading", name="Newest dead letters")).to_be_visible()
    await page.locator(".newest [data-row] a[data-open]").first.click()
    for words in ("Why it stopped", "What changed since", "What to do"):
        await expect(page.get_by_role("heading", name=words)).to_be_visible()
    attempts = page.locator("#attempts tbody tr")
    assert await attempts.count() >= 2
    await expect(page.locator("#payload")).to_contain_text("report")
    boxes = page.locator("#attempts input[name=compare]")
    await boxes.nth(0).check()
    await boxes.nth(1).check()
    await page.locator("#attempts").get_by_role("button", name=re.compile("Compare")).click()
    await expect(page.locator("#compare")).to_contain_text(re.compile(r"\d+ compared with attempt \d+"))
    await page.get_by_role("link", name="Replay…", exact=True).click()  # a separate page in place of a dialog
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.go_back()
    await page.locator(".fact", has_text="Run").get_by_role("link").click()
    await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    await expect(page.locator("svg[role=img], .timeline").first).to_be_visible()
    step = page.locator("details.step").first
    if await step.get_attribute("open") is None:
        await step.locator("summary").click()
    await expect(step.get_by_role("heading", name="Input")).to_be_visible()


async def test_runs_replays_and_the_audit_are_read(tour: Browsing) -> None:
    page = await reading(tour, f"{ADMIN}/runs")
    await page.get_by_label("Query").fill("is:held")
    await page.get_by_role("button", name="Search").click()
    await expect(page.locator("[data-row]").first).to_contain_text("stripe")
    await page.get_by_role("link", name="Replays").first.click()
    await page.locator("[data-row] a[data-open]").first.click()
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.get_by_role("link", name="Audit").first.click()
    await page.get_by_label("Action").fill("breaker.forced")
    await page.get_by_role("button", name="Filter").click()
    assert asked(page)["action"] == "breaker.forced"
    await expect(page.locator("[data-row]").first).to_contain_text("mailer")
