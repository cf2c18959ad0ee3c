"""Bulk replays over HTTP: viewers may plan them, and callers with the permission start them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

OPERATIONS, LETTERS = "/api/v1/operations", "/api/v1/dead-letters"
VERBS = ("start", "pause", "resume", "cancel")
REFUSED: tuple[dict[str, Any], ...] = (
    {},
    {"query": "is:open", "ids": ["a"]},
    {"query": "stat:open"},
    {"ids": []},
    {"group": ""},
    {"query": "is:open", "rate": 0},
    {"query": "is:open", "failure_rate": 1.1},
    {"query": "is:open", "canary": -1},
    {"query": "is:open", "minimum": 0},
    {"query": "is:open", "retry": {}},
    {"query": "is:open", "override_retry_policy": {"factor": 0}},
    {"query": "is:open", "expect": -1},
)


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as admin:
        yield admin


async def _planned(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.post(OPERATIONS, json={"query": "is:open", "reason": "the bank is open", **body})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"{OPERATIONS}/{answer.json()['id']}"
    operation: dict[str, Any] = answer.json()
    return operation


async def test_a_plan_is_looked_at_started_and_steered(house: House, client: httpx.AsyncClient) -> None:
    letters = [await house.dead_letter(number) for number in range(3)]
    made = await _planned(client, expect=3, override_retry_policy={"max_retries": 1}, rate=5, canary=1)
    plan = made["plan"]
    assert (plan["will_run"], plan["steps"], plan["mode"]) == (3, {"charge": 3}, "FROM_STEP")
    address = f"{OPERATIONS}/{made['id']}"
    known = (await client.get(address)).json()
    assert known == made
    assert (known["state"], known["planned_by"]) == ("PLANNED", "key:operator")
    assert (known["options"]["rate"], known["override_retry_policy"]) == (5.0, {"max_retries": 1})
    items = (await client.get(f"{address}/items", params={"size": 2})).json()
    rest = (await client.get(f"{address}/items", params={"cursor": items["next_cursor"]})).json()
    assert [each["dead_letter_id"] for each in items["items"] + rest["items"]] == letters
    assert (await client.get(f"{address}/items", params={"state": "FAILED"})).json()["items"] == []
    started = await client.post(f"{address}/start")
    assert (started.status_code, started.json()["state"]) == (202, "RUNNING")
    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLED")):
        steered = await client.post(f"{address}/{verb}", json={"reason": verb})
        assert steered.json()["state"] == state
    late = await client.post(f"{address}/start")
    assert (late.status_code, late.json()["code"]) == (409, "wrong_state")
    report = (await client.get(f"{address}/report")).json()
    assert (report["items"]["CANCELLED"], report["failure_rate"]) == (3, None)
    assert [each["id"] for each in (await client.get(OPERATIONS)).json()["items"]] == [made["id"]]


async def test_changes_since_the_plan_are_listed_and_can_be_left_out(
    house: House, client: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter()
    address = f"{OPERATIONS}/{(await _planned(client))['id']}"
    assert (await client.post(f"{LETTERS}/{letter}/resolve")).status_code == 200
    drifted = await client.post(f"{address}/start")
    assert (drifted.status_code, drifted.json()["code"]) == (409, "drift")
    assert [each["letter_id"] for each in drifted.json()["changes"]] == [letter]
    looked = (await client.get(f"{address}/drift")).json()
    assert looked == {"will_run": 0, "number": 1, "changes": drifted.json()["changes"]}
    other = await client.post(f"{address}/start", json={"accept_drift": True, "expect": 1})
    assert (other.status_code, other.json()["code"], other.json()["number"]) == (409, "drift", 0)
    done = await client.post(f"{address}/start", json={"accept_drift": True, "expect": 0})
    assert (done.status_code, done.json()["state"]) == (202, "DONE")


async def test_viewers_plan_and_do_not_start(house: House) -> None:
    """W12."""
    await house.dead_letter()
    async with truthful(await house.keyed("VIEWER"), house.api) as viewer:
        address = f"{OPERATIONS}/{(await _planned(viewer))['id']}"
        assert (await viewer.get(f"{address}/report")).status_code == 200
        for verb in VERBS:
            assert (await viewer.post(f"{address}/{verb}")).status_code == 403


async def test_a_foreign_one_does_not_exist(house: House, client: httpx.AsyncClient) -> None:
    """W13."""
    await house.organization("acme")
    await house.dead_letter(org="acme")
    other = truthful(await house.keyed("OWNER", "acme"), house.api)
    foreign = (await _planned(other))["id"]
    for text in (foreign, "nothing", "%00", "%ED%A0%80", "%F0%9F%92%A5"):
        answers = [
            await client.get(f"{OPERATIONS}/{text}{look}") for look in ("", "/drift", "/items", "/report")
        ]
        answers += [await client.post(f"{OPERATIONS}/{text}/{verb}") for verb in VERBS]
        assert {each.status_code for each in answers} == {404}, text
    assert (await client.get(OPERATIONS)).json()["items"] == []
    assert (await client.get(OPERATIONS, params={"cursor": foreign})).status_code == 404
    assert (await other.get(f"{OPERATIONS}/{foreign}")).json()["state"] == "PLANNED"


async def test_a_plan_that_makes_no_sense_is_refused(small_house: House) -> None:
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as viewer:
        for body in REFUSED:
            assert (await viewer.post(OPERATIONS, json=body)).status_code == 422, body
        assert (await viewer.get(OPERATIONS)).json()["items"] == []


async def test_another_number_than_expected_plans_nothing(house: House, client: httpx.AsyncClient) -> None:
    await house.dead_letter()
    answer = await client.post(OPERATIONS, json={"query": "is:open", "expect": 2})
    assert (answer.status_code, answer.json()["number"]) == (409, 1)
    for ids in (["nothing"], ["a\x00b"], ["💥"]):
        assert (await client.post(OPERATIONS, json={"ids": ids})).status_code == 404
    assert (await client.post(OPERATIONS, json={"group": "nothing"})).status_code == 404
