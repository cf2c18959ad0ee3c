"""The tools of the browser tests themselves: a check that cannot fail proves nothing."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser
from tests.browser.browsing import Browsing, axe
from tests.browser.site import Site, order, until


async def test_a_member_of_each_role_is_signed_in(visit: Browsing) -> None:
    for role in ("viewer", "staff", "admin", "owner"):
        page = await visit.open(role, "/api/docs")
        answer = await page.request.get("/api/v1/session")
        assert (await answer.json())["role"] == role.upper()


async def test_what_is_broken_fails_and_succeeds_after_the_fix(shop: Site) -> None:
    shop.trouble(addresses="bug")
    [letter] = await shop.dead_letters("checkout", order(1))
    shop.trouble()
    await shop.post(f"/api/v1/dead-letters/{letter}/replay", {})

    async def resolved() -> bool:
        return bool((await shop.get(f"/api/v1/dead-letters/{letter}"))["state"] == "RESOLVED")

    assert await until(resolved)


async def test_a_breaker_opens_and_closes_again(postgres_shop: Site) -> None:
    postgres_shop.trouble(stripe="503")
    runs = await postgres_shop.start("checkout", *(order(number) for number in range(8)))

    async def state(wanted: str) -> bool:
        return bool((await postgres_shop.get("/api/v1/breakers/stripe"))["state"] == wanted)

    await until(lambda: state("OPEN"))
    postgres_shop.trouble()
    await until(lambda: state("CLOSED"))
    assert "SUCCESS" in (await postgres_shop.ended(runs)).values()


BAD = {
    "a request to another host": "location.href = 'http://elsewhere.example/x'",
    "violates the content security policy: img-src": "new Image().src = 'http://127.0.0.1:9/x.png'",
    "console: oh no": "console.error('oh no')",
    "error of a script: too bad": "setTimeout(() => { throw new Error('too bad') })",
}


@pytest.mark.parametrize("fault", BAD)
async def test_what_a_page_may_not_do_is_noticed(browser: Browser, shop: Site, fault: str) -> None:
    visitor = Browsing(browser, shop)
    page = await visitor.open(None, "/api/docs")
    await page.evaluate(f"() => {{ {BAD[fault]} }}")

    async def noticed() -> bool:
        return any(each.startswith(fault) for each in visitor.recorder.remaining())

    await until(noticed)
    visitor.recorder.allow(".")
    assert await visitor.close() == []


async def test_axe_finds_what_is_wrong(visit: Browsing) -> None:
    page = await visit.open(None, "/api/docs")
    await page.evaluate("() => document.body.append(document.createElement('button'))")
    assert any(each.startswith("button-name (critical)") for each in await axe(page))


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_signing_in_is_accessible(visit: Browsing, theme: str) -> None:
    page = await visit.open(None, "/app/sign-in", theme="dark" if theme == "dark" else "light")
    assert await axe(page) == []
