"""Rate limits by key, organization, address and the name of a sign-in (security baseline)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.requests import Request
from tests.engine.hand_clock import HandClock
from tests.server.house import House

from redrive.model.role import Role
from redrive.policy.access import KEY, Principal
from redrive.server import limits as module
from redrive.server.admin.static_files import static_path
from redrive.server.limits import SIGN_IN_BURST, STRANGER_BURST, RequestLimits
from redrive.server.problem import ProblemError
from redrive.settings import Settings

PASSWORD = "a horse, a horse, my kingdom"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def limits(clock: HandClock) -> RequestLimits:
    return RequestLimits(Settings(server_key_rate=5, server_org_rate=10), clock.monotonic)


def key(number: int, org: str = "default") -> Principal:
    return Principal(org, f"key:{number}", Role.VIEWER, frozenset(), KEY, f"{org} {number}")


def coming_from(address: str) -> Request:
    return Request({"type": "http", "headers": [], "client": (address, 1234)})


def admitted(*tries: Callable[[], None]) -> int:
    """Count the calls until the first one that the limit rejects."""
    for number, each in enumerate(tries):
        try:
            each()
        except ProblemError as error:
            if error.code != "rate_limited":
                raise
            return number
    return len(tries)


def test_the_rate_of_a_key_is_limited(limits: RequestLimits, clock: HandClock) -> None:
    one, other = [lambda: limits.admit(key(1))] * 50, [lambda: limits.admit(key(2))] * 50
    assert admitted(*one) == 10
    clock.time += 1.0
    assert admitted(*one) == 5
    assert admitted(*other) == 10


def test_the_keys_of_an_organization_share_its_rate(limits: RequestLimits) -> None:
    of_acme = [lambda number=number: limits.admit(key(number, "acme")) for number in range(50)]
    assert admitted(*of_acme) == 20
    limits.admit(key(1))


def test_requests_without_credentials_are_counted_by_address(limits: RequestLimits) -> None:
    here = [lambda: limits.admit_stranger(coming_from("192.0.2.1"), heavy=False)] * 1000
    assert admitted(*here) == STRANGER_BURST
    limits.admit_stranger(coming_from("192.0.2.2"), heavy=False)


def test_attempts_to_sign_in_are_limited(limits: RequestLimits) -> None:
    here = [lambda: limits.admit_stranger(coming_from("192.0.2.1"), heavy=True)] * 100
    assert admitted(*here) == SIGN_IN_BURST
    limits.admit_stranger(coming_from("192.0.2.1"), heavy=False)


def test_attempts_to_sign_in_are_limited_per_name(limits: RequestLimits) -> None:
    tries = [lambda name=name: limits.admit_name(name) for name in ("ana", "ANA", " ana ", "ａna") * 50]
    assert admitted(*tries) == SIGN_IN_BURST
    limits.admit_name("bob")


def test_all_addresses_of_one_ipv6_network_share_one_limit(limits: RequestLimits) -> None:
    near = [coming_from(f"2001:db8:0:7::{number:x}") for number in range(100)]
    assert admitted(*(lambda each=each: limits.admit_stranger(each, heavy=True) for each in near)) == 10
    limits.admit_stranger(coming_from("2001:db8:0:8::1"), heavy=True)


def test_the_number_of_remembered_names_is_limited(
    limits: RequestLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BUCKETS", 3)
    for number in range(10):
        limits.admit_name(f"name {number}")
    assert len(limits._buckets) == 3


async def test_requests_without_credentials_are_limited_too(small_house: House) -> None:
    client = small_house.client("rdk_nobody")
    statuses = {(await client.get("/api/v1/session")).status_code for _ in range(int(STRANGER_BURST) + 50)}
    assert statuses == {401, 429}


async def test_colleagues_behind_one_address_are_given_the_files_of_the_pages(small_house: House) -> None:
    client = small_house.client()
    statuses = {
        (await client.get(static_path("live.js"))).status_code for _ in range(int(STRANGER_BURST) + 50)
    }
    assert statuses == {200}


async def test_a_name_that_is_tried_under_many_addresses_is_slowed_down(small_house: House) -> None:
    site = small_house.api.state.site
    for _ in range(int(SIGN_IN_BURST)):
        site.limits.admit_name("ana")
    body = {"name": "Ana", "password": PASSWORD}
    client = small_house.client(Origin="http://localhost:8400")
    assert (await client.post("/api/v1/session", json=body)).status_code == 429


async def test_a_stolen_session_cannot_guess_passwords_without_limit(small_house: House) -> None:
    await small_house.member("ana", PASSWORD)
    thief = await small_house.signed_in("ana", PASSWORD)
    body = {"password": "my kingdom for a horse", "current": "not this one at all"}
    statuses = [(await thief.put("/api/v1/session/password", json=body)).status_code for _ in range(15)]
    assert (statuses[0], statuses[-1]) == (403, 429)
