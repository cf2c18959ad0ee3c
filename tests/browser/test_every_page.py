"""Every page, with something on it: for every eye, on every screen, and sound as a document.

That no page asks another host, breaks its policy or tells of an error is seen by what watches all pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.browser.browsing import HEIGHT, Browsing, axe, go
from tests.browser.routes import ADMIN, Route, routes

PARTS = 3
"""So that several processes share the pages."""

WIDE, NARROW = 1440, 390
WIDTHS = (320, NARROW, 640, 1000, 1920, WIDE)
COLOURS = ["color-contrast", "link-in-text-block"]
SHAPES_ALONE = {"color-contrast": {"enabled": False}}

SHAPE = """() => ({
    title: document.title,
    headings: document.querySelectorAll("h1").length,
    mains: document.querySelectorAll("main").length,
    language: document.documentElement.lang,
    twice: [...document.querySelectorAll("[id]")].map((each) => each.id)
        .filter((id, at, all) => all.indexOf(id) !== at),
    nowhere: [...document.querySelectorAll("a[href^='#']")].map((each) => each.getAttribute("href"))
        .filter((each) => each !== "#" && !document.getElementById(each.slice(1))),
})"""
TOO_WIDE = """() => {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return null;
    const clips = (each) => getComputedStyle(each).overflowX !== "visible";
    const clipped = (each) => each !== document.body && (clips(each) || clipped(each.parentElement));
    const out = [...document.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1)
        .filter((each) => !clipped(each.parentElement));
    const told = out.slice(0, 3).map((each) => each.outerHTML.slice(0, 120));
    return `${root.scrollWidth} px, by ${told.join(" ")}`;
}"""


async def visited(tour: Browsing, part: int) -> AsyncIterator[tuple[Route, Page]]:
    """A part of all pages, each in the window of somebody of its role."""
    windows: dict[str | None, Page] = {}
    for route in (await routes(tour.site))[part::PARTS]:
        if route.told is not None:
            tour.recorder.allow(f"{route.told}.*{route.path.partition('?')[0]}")
        if route.role not in windows:
            windows[route.role] = await tour.open(route.role, route.path)
        page = windows[route.role]
        await page.emulate_media(color_scheme="light")
        await page.set_viewport_size({"width": WIDE, "height": HEIGHT})
        await go(page, route.path)
        yield route, page


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_is_for_every_eye(tour: Browsing, part: int) -> None:
    """axe, by day, by night and on a phone: what colours cannot change is not looked at again by night."""
    faults: list[str] = []
    async for route, page in visited(tour, part):
        faults += [f"{route.name}, light: {each}" for each in await axe(page)]
        await page.emulate_media(color_scheme="dark")
        faults += [f"{route.name}, dark: {each}" for each in await axe(page, runOnly=COLOURS)]
        await page.set_viewport_size({"width": NARROW, "height": HEIGHT})
        faults += [f"{route.name}, on a phone: {each}" for each in await axe(page, rules=SHAPES_ALONE)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_fits_and_is_sound(tour: Browsing, part: int) -> None:
    """No page is wider than its window; each has one heading, one title, and no id twice."""
    faults: list[str] = []
    titles: dict[str, str] = {}
    async for route, page in visited(tour, part):
        shape: dict[str, Any] = await page.evaluate(SHAPE)
        titles[route.name] = shape.pop("title")
        if shape != {"headings": 1, "mains": 1, "language": "en", "twice": [], "nowhere": []}:
            faults.append(f"{route.name}: {shape}")
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            if told := await page.evaluate(TOO_WIDE):
                faults.append(f"{route.name} at {width} px is {told}")
    faults += [
        f"{name} is called {title}" for name, title in titles.items() if len(title) < len("x · Redrive")
    ]
    assert not faults, "\n".join(faults)


PLACES = (
    "",
    "/dlq",
    "/runs",
    "/events",
    "/replays",
    "/breakers",
    "/queues",
    "/workers",
    "/audit",
    "/settings",
)


async def test_on_a_phone_the_navigation_is_scrolled_to_the_page_one_is_on(tour: Browsing) -> None:
    """On Queues, Workers, Audit and Settings, no entry that was in sight was marked."""
    page = await tour.open("owner", ADMIN, width=NARROW)
    for place in PLACES:
        await go(page, f"{ADMIN}{place}")
        here = page.locator(".places [aria-current=page]")
        await expect(here).to_be_in_viewport(ratio=0.9)


async def test_on_a_phone_an_entry_of_the_audit_is_two_lines(tour: Browsing) -> None:
    """Its 50 entries were cards, 8,787 px in all."""
    page = await tour.open("owner", f"{ADMIN}/audit", width=NARROW)
    heights = await page.evaluate(
        "[...document.querySelectorAll('tr[data-row]')].map((row) => row.getBoundingClientRect().height)"
    )
    assert len(heights) == 50
    assert sorted(heights)[25] <= 70
    assert sum(heights) < 4_500


@pytest.mark.parametrize("width", [NARROW, WIDE])
async def test_the_name_of_a_setting_is_not_broken_in_the_middle(tour: Browsing, width: int) -> None:
    """REDRIVE_WORKER_LEAS / E_TTL_SEC could be neither read nor copied."""
    page = await tour.open("owner", f"{ADMIN}/settings?section=server", width=width)
    lines = await page.evaluate(
        """() => [...document.querySelectorAll("tbody tr")].map((row) => {
            const range = document.createRange();
            range.selectNodeContents(row.querySelector("td:first-child"));
            const tops = new Set([...range.getClientRects()].map((part) => Math.round(part.top / 4)));
            return [row.querySelector("td").textContent, tops.size];
        })"""
    )
    assert len(lines) > 40
    assert [name for name, number in lines if number != 1] == []
