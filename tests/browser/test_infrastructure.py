"""The tools of the browser tests: a check that cannot fail proves nothing."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from playwright.async_api import Browser
from tests.browser.browsing import Browsing, axe
from tests.browser.conftest import OpenPage, drop
from tests.browser.scene.transfer import transfer
from tests.browser.site import Site, order, until
from tests.servers import PostgresServer


async def test_a_member_of_each_role_is_signed_in(visit: Browsing) -> None:
    for role in ("viewer", "staff", "admin", "owner"):
        page = await visit.open(role, "/api/docs")
        answer = await page.request.get("/api/v1/session")
        assert (await answer.json())["role"] == role.upper()


async def test_a_broken_service_fails_and_succeeds_after_the_fix(shop: Site) -> None:
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
async def test_forbidden_actions_of_a_page_are_recorded(browser: Browser, shop: Site, fault: str) -> None:
    visitor = Browsing(browser, shop)
    page = await visitor.open(None, "/api/docs")
    await page.evaluate(f"() => {{ {BAD[fault]} }}")

    async def noticed() -> bool:
        return any(each.startswith(fault) for each in visitor.recorder.remaining())

    await until(noticed)
    visitor.recorder.allow(".")
    assert await visitor.close() == []


async def test_axe_finds_faults(visit: Browsing) -> None:
    page = await visit.open(None, "/api/docs")
    await page.evaluate("() => document.body.append(document.createElement('button'))")
    assert any(each.startswith("button-name (critical)") for each in await axe(page))


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_signing_in_is_accessible(visit: Browsing, theme: str) -> None:
    page = await visit.open(None, "/app/sign-in", theme="dark" if theme == "dark" else "light")
    assert await axe(page) == []


async def test_the_scene_has_the_documented_content(scene: Site) -> None:
    figures = await scene.get("/api/v1/dead-letters/statistics")
    breakers = {each["name"]: each["state"] for each in (await scene.get("/api/v1/breakers"))["items"]}
    groups = (await scene.get("/api/v1/groups", size=500))["items"]
    operations = {each["state"] for each in (await scene.get("/api/v1/operations"))["items"]}
    assert breakers["stripe"] == "OPEN"
    assert len(groups) >= 24
    assert {each["state"] for each in groups} >= {"OPEN", "ACKNOWLEDGED", "RESOLVED", "IGNORED"}
    assert operations >= {"PLANNED", "RUNNING", "STOPPED", "DONE"}
    assert figures
    for query in ("is:held", "is:retrying", "is:executing", "is:ready", "is:waiting", "is:cancelled"):
        assert (await scene.get("/api/v1/runs/count", q=query))["number"] > 0, query
    assert (await scene.post("/api/v1/audit/verify"))["sound"]


async def test_the_scene_can_be_copied_into_postgresql(
    scenery: Path, tmp_path: Path, live_postgres: PostgresServer
) -> None:
    schema = f"test_{uuid4().hex}"
    await transfer(scenery, live_postgres.url, schema)
    site = await Site.opened(tmp_path, live_postgres.url, schema=schema, server_worker="false")
    try:
        assert len((await site.get("/api/v1/groups", size=500))["items"]) >= 24
        assert (await site.post("/api/v1/audit/verify"))["sound"]
    finally:
        await site.close()
        await drop(live_postgres.url, schema)


async def test_a_page_without_javascript_is_watched_too(visit: Browsing) -> None:
    page = await visit.open(None, "/app/sign-in", javascript=False)
    assert await page.get_by_role("heading").count() > 0
    assert f"{visit.site.url}/app/sign-in" in visit.recorder.requests


async def test_pages_of_the_scene_are_opened_signed_in(open_page: OpenPage) -> None:
    page = await open_page("viewer", "/app/admin/audit", theme="dark", width=390)
    assert await page.title() == "Audit · Redrive"
