"""What is around every page: signing in, the status line, problems, files, theme and time zone."""

from __future__ import annotations

import gzip
import re

import pytest
from tests.server.admin.reading import Reading, read
from tests.server.house import BASE, ORIGIN, House, until

from redrive.events import Event
from redrive.model.breaker import BreakerState
from redrive.parts import parts_of
from redrive.server.admin.environment import POLICY, Preferences, environment

PASSWORD = "a horse, a horse, my kingdom"
FORM = {"Content-Type": "application/x-www-form-urlencoded", **ORIGIN}


async def _posted(house: House, path: str, name: str = "ana", password: str = PASSWORD) -> object:
    content = f"name={name}&password={password.replace(' ', '+')}"
    return await house.client().post(path, content=content, headers=FORM)


async def test_a_stranger_is_led_to_sign_in_and_back_to_where_they_wanted_to_go(house: House) -> None:
    await house.member("ana", PASSWORD)
    browser = house.client()
    led = await browser.get("/app/admin/audit", params={"actor": "ana & co"})
    assert led.status_code == 303
    page = await read(browser, led.headers["location"])
    [form] = page.find("form", id="password")
    content = f"name=ana&password={PASSWORD.replace(' ', '+')}"
    back = await browser.post(form.attributes["action"], content=content, headers=FORM)
    assert (back.status_code, back.headers["location"]) == (303, "/app/admin/audit?actor=ana+%26+co")
    assert "ana" in (await read(browser, back.headers["location"])).text


async def test_signing_in_by_the_form_is_refused_alike_for_a_wrong_name_and_a_wrong_password(
    house: House,
) -> None:
    await house.member("ana", PASSWORD)
    texts = []
    for name, password in (("ana", "wrong"), ("bob", PASSWORD)):
        answer = await _posted(house, "/app/sign-in", name, password)
        assert answer.status_code == 401  # type: ignore[attr-defined]
        texts.append(Reading(answer.text).text)  # type: ignore[attr-defined]
    assert texts[0] == texts[1]
    assert "Wrong name or password." in texts[0]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_a_form_of_another_site_signs_no_one_in(small_house: House, origin: str | None) -> None:
    await small_house.member("ana", PASSWORD)
    headers = {"Content-Type": FORM["Content-Type"]} | ({} if origin is None else {"Origin": origin})
    answer = await small_house.client().post(
        "/app/sign-in", content=f"name=ana&password={PASSWORD}", headers=headers
    )
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "evil"])
async def test_after_signing_in_no_one_is_led_elsewhere(small_house: House, path: str) -> None:
    await small_house.member("ana", PASSWORD)
    answer = await small_house.client().post(
        "/app/sign-in", params={"next": path}, content=f"name=ana&password={PASSWORD}", headers=FORM
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/admin")


@pytest.mark.parametrize("path", ["/app/admin/dlq/groups/%C3%A4%20b", f"/app/admin/dlq?q={'%C3%A4' * 400}"])
async def test_a_link_that_is_hard_to_give_on_still_leads_to_where_one_can_sign_in(
    small_house: House, path: str
) -> None:
    led = await small_house.client().get(path)
    assert led.status_code == 303
    page = await read(small_house.client(), led.headers["location"])
    assert page.find("form", id="password")


async def test_a_form_that_is_not_ours_is_refused_by_a_page(small_house: House) -> None:
    answer = await small_house.client().post("/app/sign-in", content="a=1&b=2&c=3&d=4&e=5", headers=FORM)
    assert answer.status_code == 422
    assert "Enter a name and a password." in Reading(answer.text).text


async def test_too_many_sign_in_attempts_show_a_page_that_says_so(small_house: House) -> None:
    await small_house.member("ana", PASSWORD)
    content = "name=ana&password=wrong"
    answer = await until(
        429, lambda: small_house.client().post("/app/sign-in", content=content, headers=FORM)
    )
    assert answer.headers["content-type"].startswith("text/html")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_page_of_one_organization_does_nothing_in_another(house: House) -> None:
    """In another tab its user may have entered another one since."""
    await house.organization("acme")
    await house.member("ana", PASSWORD)
    letter, browser = await house.dead_letter(), await house.signed_in("ana", PASSWORD)
    browser.headers["X-Redrive-Org"] = "acme"
    refused = await browser.post(f"/api/v1/dead-letters/{letter}/resolve", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "other_organization")
    part = await browser.get("/app/admin/status", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-refresh"]) == (409, "true")
    assert (await browser.get("/api/v1/events", params={"org": "acme"})).status_code == 409
    browser.headers["X-Redrive-Org"] = "default"
    done = await browser.post(f"/api/v1/dead-letters/{letter}/resolve", json={})
    assert done.status_code == 200


async def test_htmx_is_told_to_go_to_sign_in_instead_of_putting_that_page_into_another(
    small_house: House,
) -> None:
    current = {"HX-Request": "true", "HX-Current-URL": f"{BASE}/app/admin/dlq?q=is:open"}
    answer = await small_house.client(**current).get("/app/admin/status")
    assert answer.status_code == 401
    assert answer.headers["hx-redirect"] == "/app/sign-in?next=/app/admin/dlq%3Fq%3Dis%3Aopen"


async def test_a_problem_on_a_page_is_a_page(small_house: House) -> None:
    client = await small_house.keyed("VIEWER")
    missing = await read(client, "/app/admin/nowhere", 404)
    assert "This page doesn't exist." in missing.text
    assert "/app/admin" in missing.links
    unknown = await read(client, "/app/admin/audit?acter=ana", 422)
    assert "Did you mean 'actor'?" in unknown.text


async def test_pages_say_what_browsers_may_do(small_house: House) -> None:
    answer = await (await small_house.keyed()).get("/app/admin/audit")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", answer.text)


async def test_no_page_holds_the_token_of_the_session(small_house: House) -> None:
    """They are compressed together with text from elsewhere: their size would tell of it."""
    await small_house.member("ana", PASSWORD)
    browser = await small_house.signed_in("ana", PASSWORD)
    for path in ("/app/admin", "/app/admin/dlq", "/app/admin/settings", "/app/admin/settings?section=me"):
        answer = await browser.get(path)
        assert answer.headers["content-encoding"] == "gzip"
        assert browser.headers["X-CSRF-Token"] not in answer.text


async def test_the_status_line_tells_which_dependency_fails_and_that_work_resumes(house: House) -> None:
    """P4: the banner."""
    client = await house.keyed("VIEWER")
    unknown = (await read(client, "/app/admin/status")).text
    assert "No breakers configured" in unknown
    assert "All dependencies OK" not in unknown, "nobody knows"
    await house.app.breakers().force("bank", BreakerState.OPEN, reason="maintenance")
    shown = (await read(client, "/app/admin/status")).text
    assert "bank is failing" in shown
    assert "resume automatically" in shown
    assert "bank is failing" in (await read(client, "/app/admin/audit")).text, "on every page"
    await house.app.breakers().force("bank", BreakerState.CLOSED, reason="it is over")
    assert "All dependencies OK" in (await read(client, "/app/admin/status")).text


async def test_the_counter_of_what_needs_you_is_on_every_page(house: House) -> None:
    client = await house.keyed("VIEWER")
    await house.dead_letter()
    [badge] = (await read(client, "/app/admin/keys")).find("span", class_="badge")
    assert badge.text == "1"


async def test_the_status_line_carries_what_live_pages_need_for_the_counter(house: House) -> None:
    client = await house.keyed("VIEWER")
    await house.dead_letter()
    [line] = (await read(client, "/app/admin/status")).find("div", id="status")
    assert (line.attributes["data-attention-number"], line.attributes["data-letters"]) == ("1", "1 0 0")


async def test_the_navigation_leads_to_events_where_there_may_be_some(house: House) -> None:
    client = await house.keyed("VIEWER")
    assert "/app/admin/events" not in (await read(client, "/app/admin/keys")).links
    stream = house.app.stream("scores", "redis://localhost:1")
    assert "/app/admin/events" in (await read(client, "/app/admin/keys")).links
    await house.app.events().record(stream, [Event(type="score", dedupe_key="1")])
    parts_of(house.app).declared.streams.clear()
    assert "/app/admin/events" in (await read(client, "/app/admin/keys")).links, "there are events"
    await house.organization("acme")
    acme = await house.keyed("OWNER", "acme")
    assert "/app/admin/events" not in (await read(acme, "/app/admin/keys")).links


def test_every_template_compiles() -> None:
    names = environment().list_templates()
    assert {"overview.html", "parts/ui.html", "settings/keys.html"} <= set(names)
    for name in names:
        environment().get_template(name)


async def test_files_are_kept_forever_under_an_address_that_changes_with_them(small_house: House) -> None:
    client = small_house.client()
    page = await read(client, "/app/sign-in")
    [styles] = page.find("link", rel="stylesheet")
    whole = await client.get(styles.attributes["href"], headers={"Accept-Encoding": "gzip"})
    assert whole.headers["content-encoding"] == "gzip"
    assert "immutable" in whole.headers["cache-control"]
    plain = await client.get(styles.attributes["href"], headers={"Accept-Encoding": "identity"})
    assert plain.content == whole.content, "the client has unpacked it"
    assert len(gzip.compress(plain.content)) < 20_000
    [typeface] = page.find("link", rel="preload")
    font = await client.get(typeface.attributes["href"])
    assert (font.headers["content-type"], font.content[:4]) == ("font/woff2", b"wOF2")
    assert "immutable" in font.headers["cache-control"]
    assert "font-src 'self'" in POLICY
    old = await client.get("/app/static/old/app.css")
    assert old.headers["cache-control"] == "no-cache"
    assert (await client.get("/app/static/1/no.css")).status_code == 404


async def test_theme_and_zone_are_those_of_the_cookie(small_house: House) -> None:
    client = await small_house.keyed()
    answer = await client.get("/app/admin/audit", headers={"Cookie": "redrive_look=dark%7CAsia%2FTokyo"})
    assert 'data-theme="dark"' in answer.text
    assert "JST" in answer.text


@pytest.mark.parametrize(
    "text", ["", "|", "pink|Mars/Olympus", "dark", "|../../etc/passwd", "%00|%ff", "a" * 5_000]
)
def test_a_cookie_that_is_not_ours_changes_nothing(text: str) -> None:
    look = Preferences.parse(text)
    assert look.theme in ("auto", "dark")
    assert look.zone.key == "UTC"


async def test_the_arrival_leads_to_the_pages(small_house: House) -> None:
    answer = await small_house.client().get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/admin")
