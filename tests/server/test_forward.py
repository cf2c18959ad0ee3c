"""Signing in behind a trusted proxy, and headers that only such a proxy may set (security baseline, W12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.server.house import BASE, ORIGIN, House, new_app, served

from redrive.server.limits import RequestLimits
from redrive.server.site import Site

FORWARD = "/api/v1/session/forward"
SESSION = "/api/v1/session"
PROXY, OTHER_PROXY, ELSEWHERE = "10.0.0.7", "192.168.3.4", "203.0.113.9"
HEADER = "X-Forwarded-User"
TRUST: dict[str, Any] = {
    "server_proxies": ("10.0.0.7", "192.168.0.0/16", "2001:db8::/32"),
    "server_forward_header": HEADER,
}


MEMBERS = {"ana", "bob", "carl", "dora", "eve", "josé@example.com"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    url = f"sqlite:///{tmp_path_factory.mktemp('forward')}/work.db"
    async with served(new_app(url, **TRUST)) as house:
        for name in MEMBERS:
            await house.app.members().add(name, "STAFF")
        yield house


@pytest.fixture
def house(lasting_house: House) -> House:
    """Return a served application with unused rate limits."""
    site: Site = lasting_house.api.state.site
    site.limits = RequestLimits(site.parts.settings, site.parts.clock.monotonic)
    return lasting_house


def through(house: House, peer: str, *headers: tuple[str, str]) -> httpx.AsyncClient:
    """Return a client with this peer address; it sends the headers exactly as given."""
    transport = httpx.ASGITransport(house.api, raise_app_exceptions=False, client=(peer, 1234))
    return httpx.AsyncClient(transport=transport, base_url=BASE, headers=[*ORIGIN.items(), *headers])


def named(answer: httpx.Response) -> str | None:
    return answer.json()["name"] if answer.status_code == 200 else None


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("header", [HEADER, HEADER.lower(), HEADER.upper()])
async def test_the_user_named_by_the_proxy_is_signed_in(house: House, method: str, header: str) -> None:
    client = through(house, PROXY, (header, "ana"))
    assert named(await client.request(method, FORWARD)) == "ana"
    assert named(await client.get(SESSION)) == "ana"
    [line, *_] = (await client.get(f"{SESSION}/all")).json()["items"]
    assert line["kind"] == "forward"


async def test_a_browser_continues_to_a_page_of_this_server(house: House) -> None:
    client = through(house, PROXY, (HEADER, "Ana"))
    answer = await client.get(FORWARD, params={"next": "/app/admin"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/admin")
    assert named(await client.get(SESSION)) == "ana"
    answer = await client.get(FORWARD, params={"next": "//evil.example"})
    assert answer.status_code == 422


@pytest.mark.parametrize("peer", [ELSEWHERE, "127.0.0.1", "10.0.0.8", "::1", "testclient", ""])
async def test_from_other_clients_the_header_is_ignored(house: House, peer: str) -> None:
    client = through(house, peer, (HEADER, "ana"), ("X-Forwarded-For", PROXY), ("X-Real-IP", PROXY))
    answer = await client.post(FORWARD)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_forwarded")
    assert (await client.get(SESSION)).status_code == 401


SPOOFS: dict[str, list[tuple[str, str]]] = {
    "nobody": [],
    "an empty name": [(HEADER, "")],
    "several": [(HEADER, "ana"), (HEADER, "bob")],
    "the same twice": [(HEADER, "ana"), (HEADER, "ana")],
    "in another case too": [(HEADER, "ana"), (HEADER.lower(), "bob")],
    "several in one": [(HEADER, "ana, bob")],
    "with underscores": [("X_Forwarded_User", "ana")],
    "another header": [("X-User", "ana"), ("Remote-User", "ana"), ("X-Forwarded-User-Name", "ana")],
    "half a letter": [(HEADER, "an\udce4")],
}


@pytest.mark.parametrize("headers", SPOOFS.values(), ids=SPOOFS)
async def test_an_ambiguous_proxy_header_signs_no_user_in(
    house: House, headers: list[tuple[str, str]]
) -> None:
    raw = [(name.encode(), value.encode("latin-1", "surrogateescape")) for name, value in headers]
    origin = [(name.encode(), value.encode()) for name, value in ORIGIN.items()]
    client = through(house, PROXY)
    answer = await client.send(httpx.Request("POST", BASE + FORWARD, headers=origin + raw))
    assert (answer.status_code, answer.json()["code"]) == (401, "not_forwarded")


@pytest.mark.parametrize("name", ["mallory", "ａna", "key:ana", "redrive", "operator", "x" * 500])
async def test_signing_in_does_not_make_a_member(house: House, name: str) -> None:
    client = through(house, PROXY)
    answer = await client.post(FORWARD, headers=[(HEADER.encode(), name.encode())])
    assert answer.json()["code"] in ("unknown_user", "not_forwarded")
    assert answer.status_code in (401, 403)
    found = await house.app.members().list()
    assert {each.name for each in found.members} == MEMBERS


async def test_a_name_may_have_any_letters(house: House) -> None:
    client = through(house, PROXY)
    answer = await client.post(FORWARD, headers=[(HEADER.encode(), "José@example.com".encode())])
    assert named(answer) == "josé@example.com"


async def test_a_member_without_a_right_is_refused(house: House) -> None:
    """W12: the member is active."""
    await house.app.members().change("eve", active=False)
    answer = await through(house, PROXY, (HEADER, "eve")).post(FORWARD)
    assert (answer.status_code, answer.json()["code"]) == (403, "unknown_user")


async def cookies_of(house: House, name: str) -> httpx.Cookies:
    client = through(house, PROXY, (HEADER, name))
    assert named(await client.post(FORWARD)) == name
    return client.cookies


async def test_every_request_has_to_come_through_a_proxy_that_names_the_same_user(house: House) -> None:
    cookies = await cookies_of(house, "ana")
    for peer, headers, expected in (
        (PROXY, [(HEADER, "ana")], "ana"),
        (OTHER_PROXY, [(HEADER, "ANA")], "ana"),
        (PROXY, [(HEADER, "bob")], None),
        (PROXY, [], None),
        (PROXY, [(HEADER, "ana"), (HEADER, "bob")], None),
        (ELSEWHERE, [(HEADER, "ana")], None),
        (PROXY, [(HEADER, "ana")], "ana"),
    ):
        client = through(house, peer, *headers)
        client.cookies = cookies
        assert named(await client.get(SESSION)) == expected, (peer, headers)


async def test_another_user_of_the_same_browser_gets_a_separate_session(house: House) -> None:
    client = through(house, PROXY)
    client.cookies = await cookies_of(house, "carl")
    assert named(await client.post(FORWARD, headers={HEADER: "dora"})) == "dora"
    other = through(house, PROXY, (HEADER, "carl"))
    other.cookies = await cookies_of(house, "carl")
    [line] = (await other.get(f"{SESSION}/all")).json()["items"]
    assert line["kind"] == "forward", "the session before has ended with the sign-in of dora"


async def test_sessions_of_another_kind_do_not_care_for_the_header(house: House) -> None:
    sessions = house.app.members().sessions
    new = await sessions.redeem((await sessions.link("ana")).token)
    assert new is not None
    for peer, headers in ((ELSEWHERE, []), (PROXY, [(HEADER, "bob")])):
        client = through(house, peer, *headers)
        client.cookies.set("redrive_session", new.token)
        assert named(await client.get(SESSION)) == "ana"


async def test_when_no_proxy_signs_people_in_any_more_its_sessions_are_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    async with served(new_app(url, **TRUST)) as before:
        await before.app.members().add("ana", "STAFF")
        cookies = await cookies_of(before, "ana")
    async with served(new_app(url, server_proxies=(PROXY,))) as later:
        client = through(later, PROXY, (HEADER, "ana"))
        client.cookies = cookies
        assert named(await client.get(SESSION)) is None
        answer = await client.post(FORWARD)
        assert (answer.status_code, answer.json()["code"]) == (404, "forward_off")


async def test_a_change_still_needs_the_token_and_the_origin(house: House) -> None:
    """CSRF: a proxy that signs users in does not know what they intended."""
    client = through(house, PROXY, (HEADER, "ana"))
    token = (await client.post(FORWARD)).json()["csrf_token"]
    assert (await client.delete(SESSION)).json()["code"] == "csrf"
    foreign = {"Origin": "https://evil.example", "X-CSRF-Token": token}
    assert (await client.delete(SESSION, headers=foreign)).json()["code"] == "foreign_origin"
    assert (await client.post(FORWARD, headers=foreign)).json()["code"] == "foreign_origin"
    assert (await client.delete(SESSION, headers={"X-CSRF-Token": token})).status_code == 204


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"},
        {"Forwarded": "for=10.0.0.7;host=evil.example;proto=https"},
        {"X-Original-URL": "/healthz", "X-Rewrite-URL": "/healthz"},
    ],
)
async def test_not_even_a_proxy_changes_the_address_of_a_request(
    house: House, headers: dict[str, str]
) -> None:
    """A change must come from the origin of server_url, or from that of the request itself."""
    client = through(house, PROXY, (HEADER, "ana"), *headers.items())
    evil = {"Origin": "https://evil.example"}
    assert (await client.post(FORWARD, headers=evil)).json()["code"] == "foreign_origin"
    assert named(await client.post(FORWARD)) == "ana"


# Which address the rate limits count


async def tries(house: House, peer: str, address: Any) -> list[int]:
    """Return the statuses of more sign-ins than one address may attempt at once."""
    statuses = []
    for number in range(12):
        client = through(house, peer, ("X-Forwarded-For", address(number)))
        statuses.append((await client.post(f"{SESSION}/link", json={"token": "x"})).status_code)
    return statuses


async def test_behind_the_proxy_each_client_is_counted_for_itself(house: House) -> None:
    assert set(await tries(house, PROXY, lambda number: f"203.0.113.{number}")) == {401}
    assert 429 in await tries(house, PROXY, lambda _: ELSEWHERE)


async def test_a_forged_header_does_not_change_the_counted_address(house: House) -> None:
    assert 429 in await tries(house, ELSEWHERE, lambda number: f"203.0.113.{number}")
    assert 429 in await tries(house, OTHER_PROXY, lambda number: f"198.51.100.{number}, 203.0.113.77")
