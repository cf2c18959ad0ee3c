"""Failure groups over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful
from tests.store.build import ask

from redrive.errors import FinalError
from redrive.parts import parts_of

GROUPS, LETTERS = "/api/v1/groups", "/api/v1/dead-letters"
CHANGES = ("acknowledge", "resolve", "ignore", "reopen")
UNASKABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"state": "CLOSED"}),
    ("", {"sort": "title"}),
    ("", {"text": "x" * 201}),
    ("", {"text": "a\x00b"}),
    ("", {"cursor": "nonsense"}),
    ("", {"q": "queue:payments"}),
    ("", {"q": "is:opn"}),
    ("/count", {"q": "is:opn"}),
    ("/count", {"state": "OPEN"}),
    ("/v1:abcdef/occurrences", {"seconds": 0}),
    ("/v1:abcdef/occurrences", {"seconds": "nan"}),
    ("/v1:abcdef/occurrences", {"seconds": "inf"}),
    ("/v1:abcdef/occurrences", {"buckets": 1001}),
)
SENSELESS: tuple[dict[str, Any], ...] = (
    {"until": "2030-01-01T00:00:00"},
    {"until": "2001-01-01T00:00:00Z"},
    {"beyond": 0},
    {"x": 1},
)


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as admin:
        yield admin


async def test_why_failures_are_grouped_is_a_fact_with_a_text(
    house: House, client: httpx.AsyncClient
) -> None:
    letter_id = await house.dead_letter()
    database = parts_of(house.app).database
    [[stored]] = await ask(database, "SELECT fingerprint_reason FROM redrive.dead_letters")
    assert await ask(database, "SELECT reason FROM redrive.failure_groups") == [(stored,)]
    reason = json.loads(stored)
    calls = ["tests.server.house.new_app.<locals>.charge"]
    error_type = "redrive.errors.FinalError"
    assert reason == {"code": "same_call_path", "calls": calls, "type": error_type, "step": "charge"}
    letter = (await client.get(f"{LETTERS}/{letter_id}")).json()
    text = f"the same call path: {calls[0]}; type {error_type}, step charge"
    assert letter["fingerprint_reason"] == {**reason, "text": text}
    [group] = (await client.get(GROUPS)).json()["items"]
    assert group["reason"] == letter["fingerprint_reason"]


async def test_a_text_that_a_worker_of_the_version_before_stored_stays_as_it_is(
    house: House, client: httpx.AsyncClient
) -> None:
    letter_id = await house.dead_letter()
    text = "the same call path: shop.charge; type FinalError, step charge"
    database = parts_of(house.app).database
    await ask(database, "UPDATE redrive.dead_letters SET fingerprint_reason = :old", old=text)
    await ask(database, "UPDATE redrive.failure_groups SET reason = :old", old=text)
    letter = (await client.get(f"{LETTERS}/{letter_id}")).json()
    [group] = (await client.get(GROUPS)).json()["items"]
    assert letter["fingerprint_reason"] == group["reason"] == {"code": "sentence", "text": text}


async def test_groups_are_found_and_looked_at(house: House, client: httpx.AsyncClient) -> None:
    @house.app.task
    async def refund(order: Any) -> None:
        raise FinalError("no account")

    letters = [await house.dead_letter(number) for number in range(2)]
    await house.dead_letter(work="refund")
    found = (await client.get(GROUPS, params={"sort": "occurrences", "size": 1})).json()
    [most] = found["items"]
    assert (most["occurrences"], most["dead_letters"]["open"], most["state"]) == (2, 2, "OPEN")
    more = await client.get(GROUPS, params={"sort": "occurrences", "cursor": found["next_cursor"]})
    assert [each["task"] for each in more.json()["items"]] == ["refund"]
    assert (await client.get(GROUPS, params={"text": "nothing like it"})).json()["items"] == []
    assert (await client.get(GROUPS, params={"state": "IGNORED"})).json()["items"] == []
    for params, number in (
        ({"q": "is:open group:open"}, 2),
        ({"q": "is:open occurrences:>1"}, 1),
        ({"q": "task:refund", "state": "OPEN", "text": "no account"}, 1),
        ({"q": "task:refund", "state": "RESOLVED"}, 0),
        ({"q": "task:refund", "text": 'no "account'}, 0),
        ({"q": "is:closed"}, 0),
    ):
        items = (await client.get(GROUPS, params=params)).json()["items"]
        assert len(items) == number, params
    counted = (await client.get(f"{GROUPS}/count", params={"q": "is:open"})).json()
    assert counted == {"number": 2, "capped": False}
    one = (await client.get(f"{GROUPS}/{most['fingerprint'][:14]}")).json()
    assert (one["fingerprint"], one["sample"]) == (most["fingerprint"], letters[-1])
    assert [each["occurrences"] for each in one["versions"]] == [2]
    timeline = await client.get(
        f"{GROUPS}/{most['fingerprint']}/occurrences", params={"seconds": 3600, "buckets": 4}
    )
    assert timeline.json()["numbers"] == [0, 0, 0, 2]


async def test_operators_change_the_state_of_a_group(house: House, client: httpx.AsyncClient) -> None:
    letters = [await house.dead_letter(number) for number in range(2)]
    [group] = (await client.get(GROUPS)).json()["items"]
    address = f"{GROUPS}/{group['fingerprint']}"
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    seen = await client.post(f"{address}/acknowledge", json={"reason": "I look"})
    assert (seen.json()["state"], seen.json()["changed_by"]) == ("ACKNOWLEDGED", "key:operator")
    conditions = {"until": until.isoformat(), "beyond": 5, "version": "1.2"}
    ignored = (await client.post(f"{address}/ignore", json=conditions)).json()
    assert (ignored["ignored_beyond"], ignored["ignored_version"]) == (7, "1.2")
    assert datetime.fromisoformat(ignored["ignored_until"]) == until
    assert (await client.post(f"{address}/reopen")).json()["state"] == "OPEN"
    again = await client.post(f"{address}/reopen")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    resolved = (await client.post(f"{address}/resolve", json={"reason": "fixed"})).json()
    assert (resolved["state"], resolved["resolved"], resolved["remaining"]) == ("RESOLVED", 0, 2)
    resolved = (await client.post(f"{address}/resolve", json={"dead_letters": True})).json()
    assert (resolved["resolved"], resolved["remaining"]) == (2, 0)
    states = [(await client.get(f"{LETTERS}/{each}")).json()["state"] for each in letters]
    assert states == ["RESOLVED", "RESOLVED"]
    viewer = truthful(await house.keyed("STAFF"), house.api)
    for how in CHANGES:
        assert (await viewer.post(f"{address}/{how}", json={})).status_code == 403


async def test_a_group_is_changed_only_if_its_version_is_current(
    house: House, client: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter()
    [group] = (await client.get(GROUPS)).json()["items"]
    address = f"{GROUPS}/{group['fingerprint']}"
    read = (await client.get(address)).headers["ETag"]
    assert read == f'"{group["version"]}"'
    await house.dead_letter()  # another occurrence does not change the state or the note of the group
    seen = await client.post(f"{address}/acknowledge", headers={"If-Match": read})
    assert seen.status_code == 200
    for how in CHANGES:
        late = await client.post(f"{address}/{how}", json={}, headers={"If-Match": read})
        assert (late.status_code, late.json()["code"]) == (412, "changed")
    with_letters = {"dead_letters": True}
    late = await client.post(f"{address}/resolve", json=with_letters, headers={"If-Match": read})
    assert late.status_code == 412
    assert (await client.get(f"{LETTERS}/{letter}")).json()["state"] == "OPEN"
    again = await client.post(f"{address}/reopen", headers={"If-Match": seen.headers["ETag"]})
    assert again.json()["state"] == "OPEN"


async def test_as_many_dead_letters_are_resolved_with_it_as_expected_or_none(
    house: House, client: httpx.AsyncClient
) -> None:
    await house.dead_letter()
    [group] = (await client.get(GROUPS)).json()["items"]
    address = f"{GROUPS}/{group['fingerprint']}/resolve"
    read = {"If-Match": f'"{group["version"]}"'}
    await house.dead_letter()
    late = await client.post(address, json={"dead_letters": True, "expect": 1}, headers=read)
    assert (late.status_code, late.json()["code"], late.json()["number"]) == (409, "drift", 2)
    [same] = (await client.get(GROUPS)).json()["items"]
    assert (same["state"], same["dead_letters"]["open"]) == ("OPEN", 2)
    done = await client.post(address, json={"dead_letters": True, "expect": 2}, headers=read)
    assert (done.json()["state"], done.json()["resolved"]) == ("RESOLVED", 2)
    late = await client.post(address, json={"dead_letters": True, "expect": 2}, headers=read)
    assert (late.status_code, late.json()["code"]) == (412, "changed")
    for expect in (-1, 10_001, "many"):
        answer = await client.post(address, json={"dead_letters": True, "expect": expect})
        assert answer.status_code == 422


async def test_a_foreign_one_does_not_exist(house: House, client: httpx.AsyncClient) -> None:
    """W13: the same failure of another organization is another group."""
    await house.organization("acme")
    await house.dead_letter(org="acme")
    assert (await client.get(GROUPS)).json()["items"] == []
    other = truthful(await house.keyed("OWNER", "acme"), house.api)
    [group] = (await other.get(GROUPS)).json()["items"]
    hostile = ("nothing", "%00", "%ED%A0%80", "v1:%F0%9F%92%A5", "v1%3A%25%25%25%25%25%25")
    for text in (group["fingerprint"], group["fingerprint"][:14], *hostile):
        answers = [await client.get(f"{GROUPS}/{text}"), await client.get(f"{GROUPS}/{text}/occurrences")]
        answers += [await client.post(f"{GROUPS}/{text}/{how}", json={}) for how in CHANGES]
        assert {each.status_code for each in answers} == {404}, text
    assert (await other.get(f"{GROUPS}/{group['fingerprint']}")).json()["state"] == "OPEN"


async def test_invalid_parameters_are_rejected(small_house: House) -> None:
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as viewer:
        for path, parameters in UNASKABLE:
            assert (await viewer.get(GROUPS + path, params=parameters)).status_code == 422, parameters


async def test_conditions_that_make_no_sense_are_refused(small_house: House) -> None:
    await small_house.dead_letter()
    async with truthful(await small_house.keyed("ADMIN"), small_house.api) as admin:
        [group] = (await admin.get(GROUPS)).json()["items"]
        for body in SENSELESS:
            answer = await admin.post(f"{GROUPS}/{group['fingerprint']}/ignore", json=body)
            assert answer.status_code == 422, body
