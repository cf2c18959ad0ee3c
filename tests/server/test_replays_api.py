"""Replaying over HTTP (W9, W10, G8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.errors import FinalError
from redrive.parts import parts_of
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import GATEWAY
from redrive.server.api.reference import document

LETTERS, ALIAS, REPLAYS = "/api/v1/dead-letters", "/api/v1/workflow-dlq", "/api/v1/replays"
CARD = "4111111111111111"
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
REFUSED: tuple[dict[str, Any], ...] = (
    {"mode": "ALL"},
    {"mode": None},
    {"from_step_index": -1},
    {"from_step_index": 2},
    {"from_step_index": 3},
    {"from_step_index": "one"},
    {"from_step": "nothing"},
    {"from_step": "reserve", "from_step_index": 0},
    {"mode": "STEP_ONLY", "from_step_index": 0},
    {"override_retry_policy": {"max_retries": -1}},
    {"override_retry_policy": {"retries": 3}},
    {"override_retry_policy": {"max_attempts": 3}},
    {"override_retry_policy": []},
    {"override_retry_policy": {str(number): 1 for number in range(21)}},
    {"reason": "x" * 2001},
    {"state": "RESOLVED"},
)


class World:
    """A workflow of three steps; the second fails while the bank is closed."""

    def __init__(self, house: House, client: httpx.AsyncClient) -> None:
        self.house = house
        self.client = client
        self.bank_is_open = False
        self.executed: list[tuple[str, Any]] = []
        app = house.app

        @app.task
        async def reserve(order: Any) -> Any:
            self.executed.append(("reserve", order))
            return order

        @app.task
        async def pay(order: Any) -> Any:
            self.executed.append(("pay", order))
            if not self.bank_is_open:
                raise FinalError("the bank is closed")
            return order

        @app.task
        async def ship(order: Any) -> Any:
            self.executed.append(("ship", order))
            return order

        app.workflow("shop", [reserve, pay, ship])

    async def letter(self, payload: Any = 7) -> str:
        letter = await self.house.dead_letter(payload, work="shop")
        self.executed.clear()
        self.bank_is_open = True
        return letter

    async def replay(self, letter: str, **body: Any) -> httpx.Response:
        return await self.client.post(f"{ALIAS}/{letter}/replay", json=body)

    async def states(self, letter: str) -> tuple[str, str]:
        """Return the states of the letter and of its run."""
        known = (await self.client.get(f"{LETTERS}/{letter}")).json()
        run = await parts_of(self.house.app).store.runs.get(known["run_id"], "default")
        return known["state"], run.state


@pytest.fixture
async def world(house: House) -> AsyncIterator[World]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as client:
        yield World(house, client)


async def test_step_only_executes_the_failed_step_and_leaves_the_run_partial(world: World) -> None:
    """W9, W10, G8: the request itself executes nothing."""
    letter = await world.letter()
    begun = await world.replay(letter, mode="STEP_ONLY", reason="the bank is open")
    assert begun.status_code == 202
    assert world.executed == []
    assert (await world.states(letter))[0] == "REPLAYING"
    await world.house.work()
    assert world.executed == [("pay", 7)]
    assert await world.states(letter) == ("RESOLVED", "PARTIAL")
    ended = (await world.client.get(begun.headers["Location"])).json()
    assert (ended["state"], ended["requested_by"], ended["mode"]) == (
        "SUCCEEDED",
        "key:operator",
        "STEP_ONLY",
    )
    [known] = (await world.client.get(f"{LETTERS}/{letter}/history")).json()["replays"]
    assert known == ended


async def test_from_step_continues_to_the_end(world: World) -> None:
    letter = await world.letter()
    assert (await world.replay(letter)).json()["mode"] == "FROM_STEP"
    await world.house.work()
    assert [name for name, _ in world.executed] == ["pay", "ship"]
    assert await world.states(letter) == ("RESOLVED", "SUCCESS")


@pytest.mark.parametrize("earlier", [{"from_step_index": 0}, {"from_step": "reserve"}])
async def test_an_earlier_step_is_gone_back_to(world: World, earlier: dict[str, Any]) -> None:
    letter = await world.letter()
    begun = await world.replay(letter, mode="FROM_STEP", **earlier)
    assert begun.json().get("from_step_index") == 0, begun.text
    await world.house.work()
    assert [name for name, _ in world.executed] == ["reserve", "pay", "ship"]


async def test_a_failed_replay_opens_it_again(world: World) -> None:
    letter = await world.letter()
    world.bank_is_open = False
    begun = await world.replay(letter)
    again = await world.replay(letter)
    assert (again.status_code, again.json()["code"]) == (409, "replay_refused")
    await world.house.work()
    assert await world.states(letter) == ("OPEN", "DLQ_PENDING")
    assert (await world.client.get(f"{REPLAYS}/{begun.json()['id']}")).json()["state"] == "FAILED"


@pytest.mark.parametrize(
    ("given", "attempts"), [({"max_retries": 6}, 7), (policy_to_json(GATEWAY), GATEWAY.max_attempts)]
)
async def test_a_policy_holds_for_this_replay(world: World, given: Any, attempts: int) -> None:
    letter = await world.letter()
    begun = (await world.replay(letter, override_retry_policy=given)).json()
    assert begun["override_retry_policy"]["max_attempts"] == attempts
    known = (await world.client.get(f"{LETTERS}/{letter}")).json()
    assert known["replay_override"] == begun["override_retry_policy"]


async def test_a_payload_is_changed_for_a_reason(world: World) -> None:
    letter = await world.letter({"card": "1", "password": "old"})
    edited = {"card": "2", "password": SECRET}
    assert (await world.replay(letter, payload=edited)).status_code == 422
    begun = await world.replay(letter, payload=edited, reason="another card")
    assert begun.status_code == 202
    assert SECRET not in begun.text
    assert [each["path"] for each in begun.json()["edit"]] == ["card", "password"]
    await world.house.work()
    assert world.executed[0] == ("pay", edited)


async def test_a_redacted_payload_that_is_sent_back_keeps_its_secrets(world: World) -> None:
    letter = await world.letter({"country": "", "card": CARD})
    shown = (await world.client.get(f"{LETTERS}/{letter}/payload")).json()["payload"]
    assert shown["card"] == "[redacted:card]"
    moved = await world.replay(letter, payload={"pan": shown["card"]}, reason="r")
    assert (moved.status_code, moved.json()["code"]) == (422, "invalid_value")
    assert "at pan" in moved.json()["detail"]
    begun = await world.replay(letter, payload={**shown, "country": "DE"}, reason="the country")
    assert begun.status_code == 202
    await world.house.work()
    assert world.executed[0] == ("pay", {"country": "DE", "card": CARD})


async def test_single_fields_are_changed_by_the_server(world: World) -> None:
    letter = await world.letter({"country": "", "card": CARD, "items": [{"sku": "A"}], "old": 1})
    change = {"set_fields": {"country": "DE", "items[0].sku": "B"}, "remove_fields": ["old"], "reason": "r"}
    assert (await world.replay(letter, **(change | {"payload": {}}))).status_code == 422
    assert (await world.replay(letter, **(change | {"set_fields": {"a.b": 1}}))).status_code == 422
    assert (await world.replay(letter, **(change | {"reason": ""}))).status_code == 422
    preview = await world.client.post(f"{LETTERS}/{letter}/replay/preview", json=change)
    assert (preview.status_code, world.executed) == (200, [])
    assert CARD not in preview.text
    assert preview.json()["changes"] == [
        {"path": "country", "before": "", "after": "DE"},
        {"path": "items[0].sku", "before": "A", "after": "B"},
        {"path": "old", "before": 1, "after": "(nothing)"},
    ]
    assert [(step["number"], step["name"]) for step in preview.json()["steps"]] == [(2, "pay"), (3, "ship")]
    begun = await world.replay(letter, **change)
    assert begun.json()["edit"] == preview.json()["changes"]
    await world.house.work()
    assert world.executed[0] == ("pay", {"country": "DE", "card": CARD, "items": [{"sku": "B"}]})


async def test_a_preview_is_refused_where_its_replay_would_be(world: World) -> None:
    letter = await world.letter()
    for body in REFUSED:
        refused = await world.client.post(f"{LETTERS}/{letter}/replay/preview", json=body)
        assert refused.status_code == 422, body
    await world.client.post(f"{LETTERS}/{letter}/archive", json={})
    assert (await world.client.post(f"{LETTERS}/{letter}/replay/preview", json={})).status_code == 409


async def test_without_the_permission_to_replay_a_preview_compares_no_secrets(house: House) -> None:
    """A comparison with the stored value would let a caller guess secrets."""
    letter = await house.dead_letter({"card": CARD})
    for role, status in (("VIEWER", 403), ("STAFF", 403), ("ADMIN", 200)):
        async with truthful(await house.keyed(role), house.api) as client:
            asked = await client.post(
                f"{LETTERS}/{letter}/replay/preview", json={"set_fields": {"card": CARD}}
            )
            assert asked.status_code == status


async def test_null_is_a_payload_too(world: World) -> None:
    letter = await world.letter()
    assert (await world.replay(letter, payload=None, reason="none")).status_code == 202
    await world.house.work()
    assert world.executed[0] == ("pay", None)


async def test_impossible_replays_are_rejected(small_house: House) -> None:
    async with truthful(await small_house.keyed("ADMIN"), small_house.api) as client:
        world = World(small_house, client)
        letter = await world.letter()
        for body in REFUSED:
            assert (await world.replay(letter, **body)).status_code == 422, body
        assert (await world.states(letter))[0] == "OPEN"


@pytest.mark.parametrize("body", [b'{"payload": NaN, "reason": "x"}', b'{"payload": 1e999, "reason": "x"}'])
async def test_numbers_that_are_none_are_refused(small_house: House, body: bytes) -> None:
    async with truthful(await small_house.keyed("ADMIN"), small_house.api) as client:
        letter = await World(small_house, client).letter()
        answer = await client.post(
            f"{LETTERS}/{letter}/replay", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422


async def test_the_same_key_begins_one_replay(world: World) -> None:
    """G6, G8."""
    letter = await world.letter()
    key = {"Idempotency-Key": "replay-7"}
    answers = [await world.client.post(f"{LETTERS}/{letter}/replay", json={}, headers=key) for _ in range(2)]
    assert [each.status_code for each in answers] == [202, 202]
    assert answers[0].json() == answers[1].json()


async def test_a_foreign_replay_does_not_exist(world: World) -> None:
    """W13."""
    await world.house.organization("acme")
    begun = (await world.replay(await world.letter())).json()
    other = truthful(await world.house.keyed("OWNER", "acme"), world.house.api)
    assert (await other.get(f"{REPLAYS}/{begun['id']}")).status_code == 404
    for text in ("nothing", "%00", "%ED%A0%80"):
        assert (await world.client.get(f"{REPLAYS}/{text}")).status_code == 404


async def test_both_spellings_are_documented(small_house: House) -> None:
    paths = document(small_house.api)["paths"]
    for prefix in (LETTERS, ALIAS):
        operation = paths[f"{prefix}/{{id}}/replay"]["post"]
        assert operation["x-permission"] == "retry"
        assert set(operation["responses"]) >= {"202"}
    assert {path for path in paths if path.startswith(ALIAS)} == {ALIAS, f"{ALIAS}/{{id}}/replay"}


async def test_14_w9_fields_may_be_in_camel_case(world: World) -> None:
    letter = await world.letter()
    policy = {"maxRetries": 5, "baseDelayMs": 100}
    replayed = await world.replay(letter, mode="FROM_STEP", fromStepIndex=0, overrideRetryPolicy=policy)
    assert replayed.status_code == 202
    answered = replayed.json()
    assert answered["from_step_index"] == 0
    assert answered["override_retry_policy"]["max_attempts"] == 6
    assert "fromStepIndex" not in answered


@pytest.mark.parametrize(
    "body",
    [
        {"fromStepIndex": 0, "from_step_index": 0},
        {"overrideRetryPolicy": {"maxRetries": 1, "max_retries": 1}},
        {"FromStepIndex": 0},
    ],
)
async def test_14_w9_both_spellings_of_one_field_are_a_mistake(world: World, body: dict[str, Any]) -> None:
    refused = await world.replay(await world.letter(), **body)
    assert refused.status_code == 422


async def test_14_w9_the_list_takes_the_parameters_of_other_systems(world: World) -> None:
    letter = await world.letter()

    async def listed(**parameters: Any) -> list[str]:
        found = await world.client.get(ALIAS, params=parameters)
        assert found.status_code == 200, found.text
        return [line["id"] for line in found.json()["items"]]

    assert await listed(status="open", errorCategory="unknown", stepType="pay", limit=5) == [letter]
    assert await listed(status="failed") == [letter]
    assert await listed(status="OPEN", q="is:any") == [letter]
    assert await listed(status="resolved") == []
    assert await listed(errorCategory="timeout") == []
    assert await listed(stepType="ship") == []
    for parameters in (
        {"size": 1, "limit": 1},
        {"limit": 0},
        {"limit": 501},
        {"errorCategory": "?"},
        {"status": "?"},
    ):
        assert (await world.client.get(ALIAS, params=parameters)).status_code == 422, parameters
    assert (await world.client.get(LETTERS, params={"stepType": "pay"})).status_code == 422
