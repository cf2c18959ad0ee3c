"""Browsers that an attacker controls: forged requests, fixed sessions, markup in every field (baseline)."""

from __future__ import annotations

import asyncio
import logging
from html import escape
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.server.hostile import changes, everything_read, with_names
from tests.server.house import BASE, ORIGIN, House, new_app, served, until
from tests.server.rows import all_rows, difference

PASSWORD = "a horse, a horse, my kingdom"
SESSION = "/api/v1/session"
MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "</title></textarea></script><!--",
    '=HYPERLINK("https://evil.example")',
    "\u202egnp.exe",
)
SPOOFED = {
    "X-Forwarded-For": "10.9.8.7",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-User": "olga",
    "X-Forwarded-Prefix": "/evil",
    "X-Real-IP": "10.9.8.7",
    "Forwarded": "for=10.9.8.7;host=evil.example;proto=https",
    "X-Original-URL": "/api/v1/keys",
    "X-Rewrite-URL": "/api/v1/keys",
    "X-HTTP-Method-Override": "DELETE",
    "X-User": "olga",
    "Remote-User": "olga",
    "X-Org": "acme",
    "X-Organization": "acme",
    "X-Tenant-Id": "acme",
}


async def furnished(house: House, client: httpx.AsyncClient, text: str = "plain") -> str:
    """Create rows of every kind, with this text in every field; return the id of a dead letter."""
    letter = await house.dead_letter({"text": text, text: 1})
    fingerprint = (await client.get(f"/api/v1/dead-letters/{letter}")).json()["fingerprint"]
    one = f"/api/v1/dead-letters/{letter}"
    requests: list[tuple[str, Any]] = [
        (f"{one}/notes", {"text": text}),
        (f"{one}/tags", {"add": [text]}),
        (f"{one}/assign", {"name": text}),
        (f"{one}/resolve", {"reason": text}),
        (f"{one}/reopen", {"reason": text}),
        (f"{one}/replay", {"reason": text, "payload": {"text": text}}),
        (f"/api/v1/groups/{fingerprint}/ignore", {"reason": text, "version": text}),
        ("/api/v1/operations", {"ids": [letter], "reason": text}),
        ("/api/v1/queues/default/pause", {"reason": text}),
        ("/api/v1/keys", {"name": text, "role": "VIEWER"}),
        ("/api/v1/members", {"name": text, "role": "VIEWER"}),
        ("/api/v1/organizations", {"name": "acme", "title": text}),
        (
            "/api/v1/runs",
            {
                "work": "greet",
                "payload": text,
                "tags": [text],
                "metadata": {text: text},
                "correlation_id": text,
            },
        ),
    ]
    for path, body in requests:
        answer = await client.post(path, json=body)
        assert answer.status_code in (200, 201, 202), (path, answer.text)
    await house.work()
    return letter


async def test_reading_changes_nothing(house: House) -> None:
    """A foreign page can make a browser send any GET request, with the cookie."""
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    await furnished(house, browser)
    before = await all_rows(house.app)
    answers = await everything_read(house, browser)
    strange = {each.url.path for each in answers if each.status_code not in (200, 303)}
    assert strange <= {
        *(
            "/api/v1/breakers/x",
            "/api/v1/session/oidc/callback",
            "/api/v1/rebuilds/x",
            "/api/v1/stored-events/x",
        ),
        *("/api/v1/streams/x", "/app/admin/events/x", "/app/admin/streams/x"),
    }
    assert not difference(before, await all_rows(house.app))


@pytest.mark.parametrize("text", MARKUP)
async def test_markup_in_any_field_stays_text(small_house: House, text: str) -> None:
    """The server returns it as JSON, which no browser renders, or escaped, and never as a link (output)."""
    owner = await small_house.keyed()
    if not text.isprintable():
        answer = await owner.post("/api/v1/keys", json={"name": text, "role": "VIEWER"})
        assert answer.status_code == 422
        return
    await furnished(small_house, owner, text)
    for answer in await everything_read(small_house, owner):
        kind = answer.headers.get("content-type", "")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        if "json" not in kind:
            assert (f'href="{text}' if text == escape(text) else text) not in answer.text, answer.url
    nowhere = await small_house.client().get("/api/v1/" + "<script>alert(1)</script>")
    assert nowhere.headers["content-type"] == "application/problem+json"


async def test_no_header_is_built_from_input(small_house: House) -> None:
    owner = await small_house.keyed()
    canary = "c4nary"
    await furnished(small_house, owner, canary)
    for answer in await everything_read(small_house, owner):
        assert canary not in str(answer.headers).replace(str(answer.url), "")
    made = await owner.post("/api/v1/runs", json={"work": "greet"}, headers={"Idempotency-Key": canary})
    assert canary not in str(made.headers)


@pytest.mark.parametrize("sign", ["\r\n", "\n", "\r", "\x1b[31m", "\x00", "\u2028", "\x85", "\u202e"])
async def test_a_log_line_cannot_be_forged(
    small_house: House, caplog: pytest.LogCaptureFixture, sign: str
) -> None:
    caplog.set_level(logging.DEBUG)
    owner = await small_house.keyed()
    text = f"a{sign}ERROR forged"
    for path, body in (
        ("/api/v1/keys", {"name": text, "role": "VIEWER"}),
        ("/api/v1/members", {"name": text, "role": "VIEWER"}),
        ("/api/v1/organizations", {"name": text}),
        ("/api/v1/runs", {"work": text}),
        ("/api/v1/runs", {"work": "charge", "payload": text, "correlation_id": text}),
        ("/api/v1/runs", {"work": "charge", "payload": text, "tags": [text]}),
        ("/api/v1/queues/default/pause", {"reason": text}),
        ("/api/v1/queues/default/resume", {}),
    ):
        await owner.post(path, json=body, headers={"User-Agent": "x", "X-Request-Id": "y"})
    await small_house.work()
    await owner.get(f"/api/v1/runs/{quote(text)}", params={"q": text})
    await owner.get("/api/v1/runs", params={"q": text})
    lines = [each.getMessage() for each in caplog.records if each.name.startswith(("redrive", "uvicorn"))]
    assert lines
    assert not [line for line in lines if not line.isprintable()]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_content_types_of_forms_are_rejected(small_house: House, kind: str) -> None:
    """A form of another site can send these content types with the cookie, without a CORS preflight."""
    await small_house.member("olga", PASSWORD)
    browser = await small_house.signed_in("olga", PASSWORD)
    headers = {"Content-Type": kind}
    answer = await browser.post("/api/v1/organizations", content=b'{"name": "acme"}', headers=headers)
    assert answer.status_code in (415, 422)
    del browser.headers["X-CSRF-Token"]
    answer = await browser.post("/api/v1/organizations", content=b'{"name": "acme"}', headers=headers)
    assert answer.status_code == 403


async def test_every_change_needs_the_token_of_the_session(small_house: House) -> None:
    """The test reads the routes from the application, so it covers new ones."""
    await small_house.member("olga", PASSWORD)
    browser = await small_house.signed_in("olga", PASSWORD)
    del browser.headers["X-CSRF-Token"]
    guarded = [each for each in changes(small_house) if not each[1].rule.is_public]
    for method, route in guarded:
        answer = await browser.request(method, with_names(route.path, "x"), json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "csrf"), route.path
    assert len(guarded) > 40
    assert (await browser.get(SESSION)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://["},
        {"Origin": BASE + ".evil.example"},
        {"Origin": BASE.replace("http", "https")},
        {"Origin": BASE + "@evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_a_page_of_another_site_signs_no_user_in(small_house: House, headers: dict[str, str]) -> None:
    """The user would otherwise work in an attacker's account without knowing it."""
    await small_house.member("mallory", PASSWORD)
    link = await small_house.app.members().accounts.link("mallory")
    for path, body in (("", {"name": "mallory", "password": PASSWORD}), ("/link", {"token": link.token})):
        answer = await small_house.client(**headers).post(SESSION + path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
        assert "set-cookie" not in answer.headers


async def test_a_token_that_was_there_before_is_never_promoted(house: House) -> None:
    """Session fixation: an attacker who plants a cookie must not learn the token of the session."""
    await house.member("olga", PASSWORD)
    for planted in ("A" * 43, "x", "A" * 5000):
        headers = {"Cookie": f"redrive_session={planted}"}
        body = {"name": "olga", "password": PASSWORD}
        answer = await house.client(**ORIGIN).post(SESSION, json=body, headers=headers)
        assert answer.status_code == 200
        assert answer.cookies["redrive_session"] != planted
        assert (await house.client(**headers).get(SESSION)).status_code == 401


async def test_signing_in_again_ends_the_previous_session_immediately(house: House) -> None:
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    old = {"Cookie": f"redrive_session={browser.cookies['redrive_session']}"}
    assert (await house.client(**old).get(SESSION)).status_code == 200
    answer = await browser.post(SESSION, json={"name": "olga", "password": PASSWORD})
    assert answer.status_code == 200
    assert (await browser.get(SESSION)).status_code == 200
    assert (await house.client(**old).get("/api/v1/runs")).status_code == 401


async def test_a_link_ends_the_session_before_at_once(house: House) -> None:
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    old = {"Cookie": f"redrive_session={browser.cookies['redrive_session']}"}
    assert (await house.client(**old).get(SESSION)).status_code == 200
    link = await house.app.members().accounts.link("olga")
    assert (await browser.post(f"{SESSION}/link", json={"token": link.token})).status_code == 200
    assert (await house.client(**old).get(SESSION)).status_code == 401


@pytest.mark.parametrize("how", ["disable", "remove", "rest", "demote"])
async def test_a_right_that_is_taken_is_gone_with_the_next_request(house: House, how: str) -> None:
    owner = await house.keyed()
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    assert (await browser.get("/api/v1/keys")).status_code == 200
    one = "/api/v1/members/olga"
    taken = {
        "disable": lambda: owner.post(f"{one}/disable"),
        "remove": lambda: owner.delete(one),
        "rest": lambda: owner.patch(one, json={"active": False}),
        "demote": lambda: owner.patch(one, json={"role": "VIEWER"}),
    }
    await house.member("second owner", PASSWORD)
    assert (await taken[how]()).status_code in (200, 204)
    answer = await browser.get("/api/v1/keys")
    assert answer.status_code == (403 if how == "demote" else 401)


async def test_a_new_password_ends_all_other_sessions_and_links(house: House) -> None:
    await house.member("olga", PASSWORD)
    one, two = await house.signed_in("olga", PASSWORD), await house.signed_in("olga", PASSWORD)
    link = await house.app.members().accounts.link("olga")
    assert (await two.get(SESSION)).status_code == 200
    body = {"password": "my kingdom for a horse", "current": PASSWORD}
    assert (await one.put(f"{SESSION}/password", json=body)).status_code == 204
    assert (await two.get(SESSION)).status_code == 401
    assert (await one.get(SESSION)).status_code == 200
    redeemed = await house.client(**ORIGIN).post(f"{SESSION}/link", json={"token": link.token})
    assert redeemed.status_code == 401


async def test_without_the_current_password_a_stolen_session_cannot_set_another(house: House) -> None:
    await house.member("olga", PASSWORD)
    thief = await house.signed_in("olga", PASSWORD)
    for current in (None, "", "not this one at all"):
        body = {"password": "my kingdom for a horse", "current": current}
        assert (await thief.put(f"{SESSION}/password", json=body)).status_code == 403
    assert (await house.signed_in("olga", PASSWORD)).cookies


async def test_under_https_another_host_cannot_plant_the_cookie() -> None:
    """Browsers accept __Host- cookies only from this exact host, over TLS."""
    url = "https://redrive.example.com"
    async with served(new_app("sqlite://:memory:", server_url=url)) as house:
        await house.member("olga", PASSWORD)
        headers = {"Origin": url, "Host": "redrive.example.com"}
        body = {"name": "olga", "password": PASSWORD}
        answer = await house.client(**headers).post(SESSION, json=body)
        name, _, rest = answer.headers["set-cookie"].partition("=")
        flags = {each.strip().lower() for each in rest.split(";")}
        assert name == "__Host-redrive_session"
        assert flags >= {"httponly", "secure", "samesite=lax", "path=/"}
        assert not [each for each in flags if each.startswith("domain")]
        assert "strict-transport-security" in answer.headers
        token = rest.partition(";")[0]
        plain = {**headers, "Cookie": f"redrive_session={token}"}
        assert (await house.client(**plain).get(SESSION)).status_code == 401
        assert (await house.client(**{**headers, "Origin": BASE}).post(SESSION, json=body)).status_code == 403


async def test_one_password_is_not_guessed_from_many_sides_in_many_spellings(small_house: House) -> None:
    await small_house.member("olga", PASSWORD)
    spellings = (
        "olga",
        "OLGA",
        " olga",
        "olga ",
        "\uff4flga",
        "ol\uff27a",
        "\u00a0olga",
        "Olga\t",
        "oL\uff47A",
    )
    codes = []
    for number in range(18):
        transport = httpx.ASGITransport(small_house.api, client=(f"10.0.0.{number}", 1))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=ORIGIN) as client:
            body = {"name": spellings[number % len(spellings)], "password": "not this one at all"}
            codes.append((await client.post(SESSION, json=body)).status_code)
    assert set(codes[:10]) == {401}
    assert 429 in codes[10:]


async def test_a_flood_of_strangers_does_not_make_the_server_look_ill(small_house: House) -> None:
    """Behind a proxy, strangers share the address of the health checks, which would restart the server."""
    stranger = small_house.client()
    await until(429, lambda: stranger.get("/api/v1/session"))
    assert (await stranger.get("/healthz")).status_code == 200
    assert (await stranger.get("/readyz")).status_code == 200


async def test_headers_that_any_client_can_write_change_nothing(house: House) -> None:
    """They change neither the user nor the address nor the method of a request."""
    await house.organization("acme")
    await house.member("olga", PASSWORD)
    viewer = await house.keyed("VIEWER", name="viewer")
    plain, spoofed = await viewer.get(SESSION), await viewer.get(SESSION, headers=SPOOFED)
    assert plain.json() == spoofed.json()
    assert (await house.client(**SPOOFED).get(SESSION)).status_code == 401
    for name, value in SPOOFED.items():
        assert (await house.client(**{name: value}).get("/api/v1/keys")).status_code == 401, name
    owner = await house.keyed("OWNER", "acme")
    listed = await owner.get("/api/v1/keys", headers=SPOOFED)
    assert [each["role"] for each in listed.json()["items"]] == ["OWNER"]
    made = await (await house.keyed()).post("/api/v1/members/olga/link", json={}, headers=SPOOFED)
    assert made.json()["url"].startswith(f"{BASE}/app/sign-in#")


async def test_a_host_that_readers_disagree_about_is_refused(small_house: House) -> None:
    owner = await small_house.keyed()
    for host in (
        "evil.example",
        "evil.example\\@localhost",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost/evil",
        "localhost?x",
        "localhost#x",
        "localhost:8400:1",
        "local host",
        "[::1",
        "",
    ):
        answer = await owner.get(SESSION, headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "unknown_host"), host
    two = [("Host", "localhost:8400"), ("Host", "evil.example")]
    assert (await owner.get(SESSION, headers=two)).status_code == 421
    for host in ("localhost", "localhost:1", "127.0.0.1:8400", "[::1]:8400", "LOCALHOST"):
        assert (await owner.get(SESSION, headers={"Host": host})).status_code == 200, host


@pytest.mark.parametrize(
    "field", ["org", "organization", "id", "created_by", "permissions", "version_", "user_id"]
)
async def test_no_body_takes_a_field_that_it_does_not_know(small_house: House, field: str) -> None:
    """Mass assignment: on every route, organization and author come from the credential."""
    owner = await small_house.keyed()
    bodies = [each for each in changes(small_house) if each[1].body_field is not None]
    for method, route in bodies:
        path = with_names(route.path, "x")
        answer = await owner.request(method, path, json={field: "acme"}, headers=ORIGIN)
        assert answer.status_code == 422, (path, answer.text)
        assert f"body.{field}" in [each["at"] for each in answer.json()["errors"]], (path, answer.text)
    assert len(bodies) > 40


async def test_the_organization_cannot_be_asked_for(house: House) -> None:
    """Tenants: the organization comes from the credential."""
    await house.organization("acme")
    owner = await house.keyed("OWNER", "acme")
    run = await house.app.start("greet", 1)
    for name in ("org", "organization", "tenant", "org_id"):
        answer = await owner.get("/api/v1/runs", params={name: "default"})
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_parameter")
    for query in ("org:default", 'org:"default"', "-org:acme"):
        assert (await owner.get("/api/v1/runs", params={"q": query})).status_code == 422
    assert (await owner.get(f"/api/v1/runs/{run.id}")).status_code == 404


async def test_a_caller_grants_no_more_than_they_have(house: House) -> None:
    """A key can't widen another key, and only owners of an organization create keys (W12)."""
    await house.organization("acme")
    for role in ("VIEWER", "STAFF", "ADMIN"):
        client = await house.keyed(role)
        assert (await client.post("/api/v1/keys", json={"name": "x", "role": "VIEWER"})).status_code == 403
        body = {"name": "mallory", "role": "OWNER"}
        assert (await client.post("/api/v1/members", json=body)).status_code == 403
    limited = await house.keyed("OWNER", scopes=["manage", "read"])
    wider: tuple[dict[str, Any], ...] = (
        {"name": "x", "role": "OWNER"},
        {"name": "x", "role": "ADMIN"},
        {"name": "x", "role": "OWNER", "scopes": ["manage", "reveal"]},
        {"name": "x", "role": "VIEWER", "scopes": ["plan"]},
    )
    for wanted in wider:
        assert (await limited.post("/api/v1/keys", json=wanted)).status_code == 403, wanted
    assert (await limited.post("/api/v1/members", json={"name": "m", "role": "OWNER"})).status_code == 403
    wide = (await limited.get("/api/v1/keys")).json()["items"]
    unlimited = next(each["id"] for each in wide if each["scopes"] is None and each["role"] == "ADMIN")
    assert (await limited.post(f"/api/v1/keys/{unlimited}/rotate", json={})).status_code == 403
    for scopes in (["MANAGE", "nonsense"], [], ["manage"] * 9):
        strange = {"name": "x", "role": "STAFF", "scopes": scopes}
        assert (await (await house.keyed()).post("/api/v1/keys", json=strange)).status_code == 422


async def test_owners_of_one_organization_have_no_power_over_accounts_of_another(house: House) -> None:
    """They could otherwise sign in elsewhere as a user whom they have named (W13)."""
    await house.organization("acme")
    await house.member("olga", PASSWORD, "STAFF")
    mallory = await house.keyed("OWNER", "acme")
    assert (await mallory.post("/api/v1/members/olga/link", json={})).status_code == 404
    added = await mallory.post("/api/v1/members", json={"name": "olga", "role": "STAFF"})
    assert added.status_code == 201
    for path, body in (("link", {}), ("disable", None), ("enable", None)):
        answer = await mallory.post(f"/api/v1/members/olga/{path}", json=body)
        assert answer.status_code == 403, path
    assert (await house.signed_in("olga", PASSWORD)).cookies
    home = await house.keyed()
    assert (await home.post("/api/v1/members/olga/disable")).status_code == 204


async def test_no_address_in_the_input_is_fetched(small_house: House) -> None:
    """SSRF: addresses in payloads, names and `next` are texts. A listener there receives no request."""
    received: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(100))
        writer.close()

    listener = await asyncio.start_server(hear, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/secret"
    owner = await small_house.keyed()
    await furnished(small_house, owner, url)
    await owner.get("/api/v1/dead-letters", params={"q": f'"{url}"'})
    for path in ("oidc", "forward"):
        answer = await small_house.client().get(f"{SESSION}/{path}", params={"next": url})
        assert answer.status_code in (404, 422)
        assert "location" not in answer.headers
    await small_house.work()
    listener.close()
    await listener.wait_closed()
    assert received == []
