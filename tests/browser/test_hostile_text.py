"""Hostile texts stay text, in every field and on every page.

The recorder of all pages reports scripts that run, requests to other hosts and violated policies, too.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Dialog, Page, expect
from tests.browser.browsing import Browsing, axe, go
from tests.browser.hostile_text import HOSTILE, Furnished, furnish
from tests.browser.routes import ADMIN
from tests.browser.site import Site, until

API = "/api/v1"
ACTION = r"^(GET|POST|PUT|PATCH|DELETE) /api/v1/[\w%.~:/-]*( & POST /api/v1/[\w%.~:/-]*)*$"
THEN = r"^(refresh|stay|go /app/[\w./?=&{}-]*|dialog /app/[\w./?=&{}-]*)$"
LISTS = [
    "",
    "/dlq?q=is:any",
    "/dlq?q=is:any&view=flat",
    "/runs",
    "/runs?q=is:held",
    "/replays",
    "/breakers",
    "/queues",
    "/workers",
    "/audit",
    "/audit?action=dead_letter.noted",
    "/settings",
    "/settings?section=keys",
    "/settings?section=organizations",
    "/settings?section=redaction",
    "/settings?section=me",
    "/keys",
]
STRANGE = """([action, then]) => {
    const all = [...document.querySelectorAll("*")];
    const told = [];
    const foreign = "iframe, object, embed, img, base, math, foreignObject, animate, set, video, audio, "
        + "marquee, style, mglyph, template:not([data-row-acts]), meta[http-equiv], [srcdoc], [formaction], "
        + "[style], [ping]";
    told.push(...[...document.querySelectorAll(foreign)].map((each) => each.outerHTML.slice(0, 200)));
    for (const each of all) {
        for (const { name, value } of each.attributes) {
            if (/^(on|hx-|data-hx-)/i.test(name)) told.push(`${each.tagName} ${name}=${value}`);
            if (/^(href|src|action|xlink:href)$/i.test(name)) {
                const to = new URL(value, location.href);
                const outside = each.matches("a[rel~=external][href^='http']");
                if (to.origin !== location.origin && !outside) told.push(`${each.tagName} ${name}=${value}`);
            }
        }
        const { action: does, undo, then: goes } = each.dataset ?? {};
        for (const one of [does, undo]) if (one && !RegExp(action).test(one)) told.push(`data-action=${one}`);
        if (goes && !RegExp(then).test(goes)) told.push(`data-then=${goes}`);
        for (const name of ["body", "undoBody"]) if (each.dataset?.[name]) JSON.parse(each.dataset[name]);
    }
    const ours = (each) => each.src.startsWith(`${location.origin}/app/static/`) && !each.text;
    told.push(...[...document.scripts].filter((each) => !ours(each)).map((each) => each.outerHTML));
    if (window.__ran) told.push("a script has run");
    return told;
}"""
TEXT = "() => document.documentElement.textContent.replace(/\\s+/g, ' ')"
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
SHAPE = """() => {
    const names = [...document.querySelectorAll("main *")].map((each) => each.localName);
    const counted = ["form", "button", "input", "textarea", "script", "h1", "h2", "section", "nav"];
    return Object.fromEntries(counted.map((name) => [name, names.filter((each) => each === name).length]));
}"""


class Den:
    """A site full of hostile texts."""

    def __init__(self, site: Site, known: Furnished) -> None:
        self.site = site
        self.known = known

    def pages(self, number: int) -> dict[str, str]:
        """Return the pages of the objects with this text in all their fields."""
        known = self.known
        return {
            "run": f"{ADMIN}/runs/{known.runs[number]}",
            "letter": f"{ADMIN}/dlq/{known.letters[number]}?compare=1,2",
            "group": f"{ADMIN}/dlq/groups/{quote(known.groups[number], safe='')}",
            "replay": f"{ADMIN}/replays/{known.operations[number]}",
            "new": f"{ADMIN}/replays/new?ids={known.letters[number]}",
        }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def den(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Den]:
    folder = tmp_path_factory.mktemp("den")
    known = await furnish(folder / "work.db")
    site = await Site.opened(folder, server_worker="false")
    yield Den(site, known)
    await site.close()


@pytest_asyncio.fixture(loop_scope="session")
async def lion(browser: Browser, den: Den) -> AsyncIterator[Browsing]:
    visitor = Browsing(browser, den.site)
    yield visitor
    assert await visitor.close() == []


async def entered(lion: Browsing, **options: Any) -> Page:
    page = await lion.open("owner", f"{ADMIN}/keys", **options)

    async def asked(dialog: Dialog) -> None:
        lion.recorder.faults.append(f"a script asks: {dialog.message}")
        await dialog.dismiss()

    page.on("dialog", asked)
    return page


async def strange(page: Page) -> list[str]:
    told: list[str] = await page.evaluate(STRANGE, [ACTION, THEN])
    return told


def spoken(text: str) -> str:
    """Return the start of the text as pages show it: on one line, with invalid characters replaced."""
    shown = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub(r"[\s\ufeff]+", " ", shown)[:50].strip()


async def test_lists_show_all_of_them_as_text(lion: Browsing) -> None:
    page = await entered(lion)
    faults = []
    for path in LISTS:
        await go(page, f"{ADMIN}{path}")
        faults += [f"{path}: {each}" for each in await strange(page)]
        if (beyond := await page.evaluate(TOO_WIDE)) > 0:
            faults.append(f"{path} is {beyond} px too wide")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", ["/queues", "/breakers", "/workers", "/settings", "/settings?section=keys"])
async def test_every_text_can_be_read_in_a_list(lion: Browsing, path: str) -> None:
    page = await entered(lion)
    await go(page, f"{ADMIN}{path}")
    text = await page.evaluate(TEXT)
    assert [each for each in HOSTILE if readable(each) and spoken(each) not in text] == []
    assert await axe(page) == []


def readable(text: str) -> bool:
    """Tell whether to search for the text: HTML has no NUL, and pages show another character for it."""
    return "\x00" not in text


@pytest.mark.parametrize("part", range(3))
async def test_pages_about_one_thing_show_it_as_text(lion: Browsing, den: Den, part: int) -> None:
    """Each text in all fields at once: the page has as many elements as with plain words."""
    page = await entered(lion)
    faults, plain = [], {}
    for name, path in den.pages(0).items():
        await go(page, path)
        plain[name] = await page.evaluate(SHAPE)
    for number in range(1 + part, len(HOSTILE), 3):
        for name, path in den.pages(number).items():
            await go(page, path)
            faults += [f"{name} of {HOSTILE[number]!r}: {each}" for each in await strange(page)]
            if (shape := await page.evaluate(SHAPE)) != plain[name] and name != "replay":
                other = {
                    each: (plain[name][each], shape[each])
                    for each in shape
                    if plain[name][each] != shape[each]
                }
                faults.append(f"{name} of {HOSTILE[number]!r}: {other}")
            if readable(HOSTILE[number]) and spoken(HOSTILE[number]) not in await page.evaluate(TEXT):
                faults.append(f"{name} does not say {HOSTILE[number]!r}")
            if (beyond := await page.evaluate(TOO_WIDE)) > 0:
                faults.append(f"{name} of {HOSTILE[number]!r} is {beyond} px too wide")
    assert not faults, "\n".join(faults)


async def test_they_fit_on_a_phone(lion: Browsing, den: Den) -> None:
    page = await entered(lion, width=320)
    faults = []
    long = max(range(len(HOSTILE)), key=lambda each: len(HOSTILE[each].split()[0]))
    for path in [*(f"{ADMIN}{each}" for each in LISTS), *den.pages(long).values()]:
        await go(page, path)
        if (beyond := await page.evaluate(TOO_WIDE)) > 0:
            faults.append(f"{path} is {beyond} px too wide")
    assert not faults, "\n".join(faults)


async def test_parts_of_the_address_are_shown_as_text(lion: Browsing) -> None:
    """Pages repeat unknown queries, filters and names."""
    lion.recorder.allow("status of 4..")
    page = await entered(lion)
    faults = []
    places: list[Callable[[str], str]] = [
        lambda text: f"{ADMIN}/dlq?{urlencode({'q': text})}",
        lambda text: f"{ADMIN}/runs?{urlencode({'q': f'tag:{text}'})}",
        lambda text: f"{ADMIN}/audit?{urlencode({'actor': text, 'action': text[:60], 'subject': text})}",
        lambda text: f"{ADMIN}/dlq/{quote(text, safe='')}",
        lambda text: f"{ADMIN}/replays/new?{urlencode({'q': text})}",
        lambda text: f"/app/sign-in?{urlencode({'next': text})}",
        lambda text: f"{ADMIN}/settings?{urlencode({'section': text[:40]})}",
        lambda text: f"{ADMIN}/dlq?{urlencode({text: text})}",
    ]
    for number, text in enumerate(each.encode("utf-8", "replace").decode() for each in HOSTILE):
        for place in (places[number % len(places)], places[(number + 3) % len(places)]):
            await go(page, place(text))
            faults += [f"{place(text)}: {each}" for each in await strange(page)]
    assert not faults, "\n".join(faults)


LOUD = [
    number for number, text in enumerate(HOSTILE) if re.search(r"<script|<img|onfocus|hx-on|\{name\}", text)
][:6]


async def test_scripts_write_stored_texts_as_text(lion: Browsing, den: Den) -> None:
    """Toasts, questions and copied texts: our own scripts build them from stored texts."""
    lion.recorder.allow("status of 422")  # no queue can have such a name, and the error repeats it
    page = await entered(lion, permissions=["clipboard-read", "clipboard-write"])
    for number in LOUD:
        text = HOSTILE[number]
        await go(page, f"{ADMIN}/settings?section=keys")
        row = page.locator("[data-row]").filter(has=page.get_by_text(text, exact=True)).first
        await row.get_by_role("button", name="Revoke").click()
        await expect(page.locator("#dialog")).to_contain_text(f"Revoke the key {text}?")
        assert await strange(page) == []
        await page.keyboard.press("Escape")
        await go(page, f"{ADMIN}/queues")
        row = page.locator("[data-row]").filter(has=page.get_by_text(text, exact=True)).first
        await row.get_by_role("button", name="Resume").click()
        await expect(page.locator("#toasts")).to_contain_text(text)
        assert await strange(page) == []
        await go(page, den.pages(number)["letter"])
        await page.keyboard.press("c")
        await expect(page.locator("#toasts")).to_contain_text("Copied")
        assert await strange(page) == []
    assert await page.evaluate("navigator.clipboard.readText()")


async def test_the_value_of_an_attribute_arrives_unchanged(lion: Browsing, den: Den) -> None:
    """A button removes the tag in its attributes: exactly that tag."""
    page = await entered(lion)
    for number in LOUD:
        letter = den.known.letters[number]
        assert HOSTILE[number] in (await den.site.get(f"{API}/dead-letters/{letter}"))["tags"]
        await go(page, f"{ADMIN}/dlq/{letter}")
        await page.locator("button.untag").first.click()
        await until(lambda letter=letter: _untagged(den.site, letter))  # type: ignore[misc]


async def _untagged(site: Site, letter: str) -> bool:
    return not (await site.get(f"{API}/dead-letters/{letter}"))["tags"]


async def test_a_runbook_is_a_link_only_to_the_web(lion: Browsing, den: Den) -> None:
    page = await entered(lion)
    for number, text in enumerate(HOSTILE):
        if "cript:" in text or text.startswith("data:"):
            await go(page, f"{ADMIN}/dlq/{den.known.letters[number]}")
            fact = page.locator(".fact").filter(has=page.locator("dt", has_text="Runbook"))
            await expect(fact.locator("dd")).to_have_text(" ".join(text.split()))
            await expect(fact.locator("a")).to_have_count(0)
