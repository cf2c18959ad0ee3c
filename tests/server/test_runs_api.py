"""Runs over HTTP: starting, finding, reading, cancelling and retrying them (G8, P8, P9, W6, W13)."""

from __future__ import annotations

import asyncio
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
from redrive.server.api.reference import document

RUNS, JOBS, P8 = "/api/v1/runs", "/api/v1/jobs", "/api/jobs"
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
HOSTILE = ("nothing", "%00", "a%00b", "%ED%A0%80", "%F0%9F%92%A5", "'%20OR%201=1--", "%0A", "%25s")
LOOKS = ("", "/steps", "/attempts", "/events")
KEYS: list[tuple[str, int]] = [
    ("", 400),
    ('""', 400),
    ('"unclosed', 400),
    ("two words", 400),
    ('"a", "b"', 400),
    ("x" * 256, 400),
    ("dlq:7", 422),
    ("x" * 255, 202),
    ('"a \\"quoted\\" one"', 202),
]
BAD_STARTS: list[dict[str, Any]] = [
    {},
    {"work": 7},
    {"work": ""},
    {"work": "x" * 101},
    {"work": "note", "priority": 101},
    {"work": "note", "priority": -101},
    {"work": "note", "delay_seconds": -1},
    {"work": "note", "delay_seconds": 1e12},
    {"work": "note", "delay_seconds": 1, "at": "2030-01-31T12:00:00Z"},
    {"work": "note", "at": "2030-01-31T12:00:00"},
    {"work": "note", "at": "2030-01-31"},
    {"work": "note", "at": 1_900_000_000},
    {"work": "note", "at": "1900000000"},
    {"work": "note", "at": "9999-12-31T23:59:59Z"},
    {"work": "note", "at": "0001-01-01T00:00:00+14:00"},
    {"work": "note", "at": "2030-13-31T12:00:00Z"},
    {"work": "note", "queue": "nowhere"},
    {"work": "note", "queue": "a\x00b"},
    {"work": "note", "correlation_id": "a\nb"},
    {"work": "note", "correlation_id": ""},
    {"work": "note", "tags": "vip"},
    {"work": "note", "tags": [""]},
    {"work": "note", "tags": ["x"] * 51},
    {"work": "note", "metadata": []},
    {"work": "note", "org": "acme"},
    {"work": "note", "key": "mine"},
    {"work": "note", "id": "mine"},
    {"work": "strict", "payload": "seven"},
    {"work": "note", "payload": {"card": "[redacted:card]"}},
    {"work": "a\x00b"},
]
HOSTILE_JSON: list[tuple[bytes, int]] = [
    (b'{"work": "note", "payload": NaN}', 422),
    (b'{"work": "note", "payload": 1e999}', 422),
    (b'{"work": "note", "delay_seconds": NaN}', 422),
    (b'{"work": "note", "metadata": {"a": Infinity}}', 422),
    (b'{"work": "note", "payload": ' + b"9" * 5000 + b"}", 400),
    (b'{"work": "note", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    (b'{"work": "note", "payload": ' + b"[" * 900 + b'"[redacted:card]"' + b"]" * 900 + b"}", 422),
    (b'{"work": "note"', 400),
    (b"", 422),
    (b"[]", 422),
]
BAD_BATCHES: list[dict[str, Any]] = [
    {"work": "note", "payloads": []},
    {"work": "note", "payloads": [1] * 1001},
    {"work": "note", "payloads": [1, 2], "keys": ["a"]},
    {"work": "note", "payloads": [1], "keys": ["dlq:1"]},
    {"work": "note", "payloads": [1, ["paid with [redacted:card:0123abcd]"]]},
    {"work": "note", "payloads": [1], "keys": [""]},
    {"work": "strict", "payloads": [1, "two"]},
    {"work": "nothing", "payloads": [1]},
    {"work": "note", "payload": 1},
]
BAD_QUERIES: list[dict[str, Any]] = [
    {"q": "stat:open"},
    {"q": 'is:live "'},
    {"q": "is:nowhere"},
    {"q": "free text"},
    {"cursor": "nonsense"},
    {"size": 0},
    {"size": 501},
    {"q": "x" * 2001},
    {"order": "oldest"},
]


class World:
    """`file` works on something that may be gone; `executed` is what was executed, and when."""

    def __init__(self, house: House, client: httpx.AsyncClient) -> None:
        self.house = house
        self.client = client
        self.executed: list[Any] = []
        self.source_exists = True
        self.fixed = False
        self.in_task, self.go_on = asyncio.Event(), asyncio.Event()
        app = house.app

        @app.task
        async def note(thing: Any = None) -> Any:
            self.executed.append(thing)
            return thing

        @app.task(source=lambda _: self.source_exists)
        async def file(thing: Any = None) -> None:
            self.executed.append(thing)
            if not self.fixed:
                raise FinalError("the disk is full")

        @app.task
        async def long(thing: Any = None) -> None:
            self.in_task.set()
            await self.go_on.wait()

        @app.task
        async def strict(number: int) -> None:
            self.executed.append(number)

        app.workflow("import", [note, file])

    async def start(self, work: str = "note", payload: Any = 7, **body: Any) -> httpx.Response:
        return await self.client.post(RUNS, json={"work": work, "payload": payload, **body})

    async def started(self, work: str = "note", payload: Any = 7, **body: Any) -> str:
        answer = await self.start(work, payload, **body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def get(self, run_id: str, look: str = "") -> Any:
        answer = await self.client.get(f"{RUNS}/{run_id}{look}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def listed(self, query: str) -> list[str]:
        found = await self.client.get(RUNS, params={"q": query})
        assert found.status_code == 200, found.text
        return [each["id"] for each in found.json()["items"]]

    async def other(self, role: str = "OWNER", org: str = "acme") -> httpx.AsyncClient:
        return truthful(await self.house.keyed(role, org), self.house.api)


@pytest.fixture
async def world(house: House) -> AsyncIterator[World]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as client:
        yield World(house, client)


@pytest.fixture
async def small_world(small_house: House) -> AsyncIterator[World]:
    async with truthful(await small_house.keyed("ADMIN"), small_house.api) as client:
        yield World(small_house, client)


async def test_a_run_is_started_and_nothing_is_executed_in_the_request_g8(world: World) -> None:
    answer = await world.start(payload={"order": 7})
    assert answer.status_code == 202
    started = answer.json()
    assert (started["state"], started["existed"]) == ("PENDING", False)
    assert "idempotency-replayed" not in answer.headers
    assert world.executed == []
    assert (await world.client.get(answer.headers["Location"])).json()["state"] == "PENDING"
    await world.house.work()
    assert world.executed == [{"order": 7}]
    ended = await world.get(started["id"])
    assert (ended["state"], ended["input"], ended["result"]) == ("SUCCESS", {"order": 7}, {"order": 7})


async def test_everything_that_a_run_is_started_with_is_kept(world: World) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    run_id = await world.started(
        priority=-7,
        at=later.isoformat(),
        queue="default",
        correlation_id="order-7",
        tags=["vip", "eu"],
        metadata={"team": "shop"},
    )
    known = await world.get(run_id)
    assert (known["priority"], known["queue"], known["correlation_id"]) == (-7, "default", "order-7")
    assert (known["tags"], known["metadata"], known["place"]) == (["vip", "eu"], {"team": "shop"}, "waiting")
    assert abs(datetime.fromisoformat(known["due_at"]) - later) < timedelta(seconds=1)
    assert await world.listed("tag:vip is:waiting correlation:order-7") == [run_id]
    delayed = await world.get(await world.started(delay_seconds=3600))
    assert delayed["place"] == "waiting"


async def test_runs_with_an_order_key_say_what_they_wait_for(world: World) -> None:
    first = await world.started(order_key="customer-7")
    second = await world.started(orderKey="customer-7", afterFailure="proceed")
    answer = await world.client.post(
        f"{RUNS}/many", json={"work": "note", "payloads": [1, 2], "order_key": "customer-7"}
    )
    third, _ = (item["id"] for item in answer.json()["items"])
    many = {"number": 2, "capped": False}
    assert (await world.get(first))["order"] == {
        "key": "customer-7",
        "after_failure": "wait",
        "waits_for": None,
        "before": {"number": 0, "capped": False},
        "behind": {"number": 3, "capped": False},
    }
    parked = await world.get(third)
    assert (parked["order"]["waits_for"], parked["order"]["before"]) == (first, many)
    assert (parked["state"], parked["place"], parked["held_by"]) == ("PENDING", "waiting", "order:customer-7")
    assert (await world.get(second))["order"]["after_failure"] == "proceed"
    assert set(await world.listed("is:parked")) == {second, third, answer.json()["items"][1]["id"]}
    await world.house.work()
    assert (await world.get(third))["order"]["after_failure"] is None
    assert (await world.get(await world.started()))["order"] is None


async def test_an_order_key_is_checked(world: World) -> None:
    for body, field in (
        ({"order_key": ""}, "order_key"),
        ({"order_key": "k" * 256}, "order_key"),
        ({"order_key": "k", "after_failure": "stop"}, "after_failure"),
    ):
        answer = await world.start(**body)
        assert answer.status_code == 422, body
        assert field in answer.text
    answer = await world.start(after_failure="proceed")
    assert (answer.status_code, "pass order_key" in answer.text) == (422, True)


async def test_the_same_key_is_the_same_run_g6_g8(world: World) -> None:
    key = {"Idempotency-Key": '"order 7"'}
    body = {"work": "note", "payload": {"order": 7}}
    answers = [await world.client.post(RUNS, json=body, headers=key) for _ in range(2)]
    first, second = [each.json() for each in answers]
    assert [each.status_code for each in answers] == [202, 202]
    assert (second["id"], first["existed"], second["existed"]) == (first["id"], False, True)
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert answers[1].headers["Location"] == answers[0].headers["Location"]
    await world.house.work()
    third = await world.client.post(RUNS, json=body, headers=key)
    assert (third.json()["id"], third.json()["state"]) == (first["id"], "SUCCESS")
    await world.house.work()
    assert world.executed == [{"order": 7}]
    assert (await world.get(first["id"]))["idempotency_key"] == "order 7"


async def test_a_key_with_another_payload_is_refused_and_free_in_another_organization(world: World) -> None:
    await world.house.organization("acme")
    key = {"Idempotency-Key": "order-7"}
    one = await world.client.post(RUNS, json={"work": "note", "payload": 1}, headers=key)
    two = await world.client.post(RUNS, json={"work": "note", "payload": 2}, headers=key)
    assert (two.status_code, two.json()["code"]) == (422, "key_reused")
    assert two.json()["run_id"] == one.json()["id"]
    other = await world.other()
    theirs = await other.post(RUNS, json={"work": "note", "payload": 2}, headers=key)
    assert (theirs.status_code, theirs.json()["existed"]) == (202, False)
    assert theirs.json()["id"] != one.json()["id"]


async def test_duplicates_at_the_same_time_are_one_run(world: World) -> None:
    key = {"Idempotency-Key": "once"}
    asking = [world.client.post(RUNS, json={"work": "note"}, headers=key) for _ in range(20)]
    answers = [each.json() for each in await asyncio.gather(*asking)]
    assert len({each["id"] for each in answers}) == 1
    assert [each["existed"] for each in answers].count(False) == 1
    await world.house.work()
    assert len(world.executed) == 1


async def test_a_key_is_well_formed(small_world: World) -> None:
    for key, status in KEYS:
        headers = {"Idempotency-Key": key}
        answer = await small_world.client.post(RUNS, json={"work": "note"}, headers=headers)
        assert answer.status_code == status, key


async def test_two_keys_are_malformed(small_world: World) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    answer = await small_world.client.post(RUNS, json={"work": "note"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "key_malformed")


async def test_what_cannot_be_started_is_refused(small_world: World) -> None:
    for body in BAD_STARTS:
        answer = await small_world.client.post(RUNS, json=body)
        assert answer.status_code == 422, body
    assert await small_world.listed("is:any") == []


async def test_hostile_json_is_refused(small_world: World) -> None:
    headers = {"Content-Type": "application/json"}
    for body, status in HOSTILE_JSON:
        answer = await small_world.client.post(RUNS, content=body, headers=headers)
        assert answer.status_code == status, body[:50]
    assert await small_world.listed("is:any") == []


async def test_any_json_is_a_payload(world: World) -> None:
    payloads: list[Any] = [None, 0, "", [], {}, "\x00", "é🜚", {"a": [1.5, None, {"b": False}]}]
    for each in payloads:
        await world.started(payload=each)
    await world.house.work()
    assert world.executed == payloads


async def test_unknown_work_is_told_with_what_is_known(small_world: World) -> None:
    answer = await small_world.client.post(RUNS, json={"work": "nota"})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_work")
    assert "'note'" in answer.json()["detail"]


async def test_many_are_started_all_or_none(world: World) -> None:
    body = {"work": "note", "payloads": [1, 2, 3], "keys": ["a", "b", "c"], "tags": ["batch"]}
    first = await world.client.post(f"{RUNS}/many", json=body)
    assert first.status_code == 202
    items = first.json()["items"]
    assert [each["existed"] for each in items] == [False] * 3
    again = (await world.client.post(f"{RUNS}/many", json=body)).json()["items"]
    assert again == [{**each, "existed": True} for each in items]
    clash = {"work": "note", "payloads": [4, 5], "keys": ["d", "a"]}
    refused = await world.client.post(f"{RUNS}/many", json=clash)
    assert (refused.status_code, refused.json()["code"]) == (422, "key_reused")
    assert sorted(await world.listed("tag:batch")) == sorted(each["id"] for each in items)
    assert await world.listed("key:d") == []
    await world.house.work()
    assert world.executed == [1, 2, 3]


async def test_many_that_cannot_be_started_are_refused(small_world: World) -> None:
    for body in BAD_BATCHES:
        assert (await small_world.client.post(f"{RUNS}/many", json=body)).status_code == 422, str(body)[:80]
    assert await small_world.listed("is:any") == []


async def test_a_repeated_request_for_many_is_answered_from_memory(world: World) -> None:
    """G6: without keys of their own, the key of the request protects them."""
    body, key = {"work": "note", "payloads": [1, 2]}, {"Idempotency-Key": "batch-1"}
    answers = [await world.client.post(f"{RUNS}/many", json=body, headers=key) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert len(await world.listed("is:any")) == 2


async def test_many_are_not_started_twice_when_the_answer_was_lost_in_a_kill(world: World) -> None:
    """G6: the runs are there, the key is left behind by somebody whose lease has ended."""
    body, key = {"work": "note", "payloads": [1, 2]}, {"Idempotency-Key": "batch-1"}
    first = (await world.client.post(f"{RUNS}/many", json=body, headers=key)).json()["items"]
    killed = (
        "UPDATE redrive.idempotency_keys SET status = 'processing', response = NULL, lease_expires_at = 0"
    )
    await ask(parts_of(world.house.app).database, killed)
    again = (await world.client.post(f"{RUNS}/many", json=body, headers=key)).json()["items"]
    assert [each["id"] for each in again] == [each["id"] for each in first]
    assert all(each["existed"] for each in again)
    assert len(await world.listed("is:any")) == 2


async def test_runs_are_found_by_a_query_page_by_page_under_both_spellings(world: World) -> None:
    failed = await world.started("import", 1)
    await world.house.work()
    ids = [await world.started(payload=number) for number in range(3)]
    first = (await world.client.get(RUNS, params={"q": "is:pending", "size": 2})).json()
    rest = (await world.client.get(JOBS, params={"q": "is:queued", "cursor": first["next_cursor"]})).json()
    assert [each["id"] for each in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next_cursor"] is None
    assert await world.listed("is:failed workflow:import") == [failed]
    counted = await world.client.get(f"{RUNS}/count", params={"q": "is:live"})
    assert counted.json() == {"number": 3, "capped": False}
    counts = (await world.client.get(f"{JOBS}/counts")).json()
    numbers = {state: each["number"] for state, each in counts.items() if each["number"]}
    assert numbers == {"PENDING": 3, "DLQ_PENDING": 1}


async def test_what_cannot_be_asked_for_is_refused(small_world: World) -> None:
    for parameters in BAD_QUERIES:
        assert (await small_world.client.get(RUNS, params=parameters)).status_code == 422, parameters


async def test_pages_are_as_large_as_the_settings_say(small_world: World) -> None:
    for number in range(3):
        await small_world.started(payload=number)
    object.__setattr__(parts_of(small_world.house.app).settings, "server_page_size", 2)
    found = (await small_world.client.get(RUNS, params={"size": 500})).json()
    assert len(found["items"]) == 2
    assert found["next_cursor"]


async def test_the_story_of_a_run_is_read_without_its_secrets(world: World) -> None:
    """W6, P9, I9."""
    run_id = await world.started(
        "import", {"file": "a.csv", "password": SECRET}, metadata={"token": SECRET}, tags=["eu"]
    )
    await world.house.work()
    viewer = await world.other("VIEWER", "default")
    answers = [await viewer.get(f"{RUNS}/{run_id}{look}") for look in LOOKS]
    assert [each.status_code for each in answers] == [200] * len(LOOKS)
    assert not any(SECRET in each.text for each in answers)
    run, steps, attempts, events = [each.json() for each in answers]
    assert (run["state"], run["step"], run["input"]["file"]) == ("DLQ_PENDING", "file", "a.csv")
    assert run["error"]["error_type"].endswith("FinalError")
    assert run["error"]["attempt"] == 1
    assert [each["name"] for each in run["steps"]] == ["note", "file"]
    letter = (await viewer.get(f"/api/v1/dead-letters/{run['dead_letter']['id']}")).json()
    assert (letter["run_id"], letter["state"]) == (run_id, run["dead_letter"]["state"])
    second = steps["items"][1]
    assert (second["state"], second["attempt_count"], second["max_retries"]) == ("DLQ", 1, 3)
    assert second["first_failed_at"] == second["last_failed_at"] is not None
    assert "FinalError" in second["error_stack"]
    assert [(each["step"], each["outcome"]) for each in attempts["items"]] == [
        ("note", "succeeded"),
        ("file", "failed"),
    ]
    told = [each["what"] for each in events["items"]]
    assert (told[0], told[-1]) == ("queued", "finished")
    assert {"started", "succeeded", "failed"} <= set(told)


async def test_waiting_work_is_cancelled_at_once(world: World) -> None:
    run_id = await world.started()
    cancelled = await world.client.post(f"{RUNS}/{run_id}/cancel", json={"reason": f"not needed {SECRET}"})
    assert (cancelled.status_code, cancelled.json()) == (200, {"id": run_id, "outcome": "cancelled"})
    await world.house.work()
    assert world.executed == []
    assert (await world.get(run_id))["state"] == "CANCELLED"
    found = await world.client.get("/api/v1/audit", params={"subject": run_id})
    [entry] = found.json()["items"]
    assert (entry["actor"], entry["action"]) == ("key:operator", "run.cancelled")
    assert entry["detail"]["reason"].startswith("not needed")
    assert SECRET not in found.text
    again = await world.client.post(f"{RUNS}/{run_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")


async def test_of_work_in_flight_the_worker_is_told(world: World) -> None:
    run_id = await world.started("long")
    working = asyncio.create_task(world.house.work())
    await asyncio.wait_for(world.in_task.wait(), 10)
    asked = await world.client.post(f"{RUNS}/{run_id}/cancel")
    assert (asked.status_code, asked.json()["outcome"]) == (202, "requested")
    assert (await world.get(run_id))["cancel_requested_at"]
    world.go_on.set()
    await working


async def test_what_has_failed_is_queued_again_under_all_spellings_p8(world: World) -> None:
    for prefix in (RUNS, JOBS, P8):
        world.fixed = False
        run_id = await world.started("file")
        await world.house.work()
        world.executed.clear()
        world.fixed = True
        retried = await world.client.post(f"{prefix}/{run_id}/retry", json={"reason": "there is room"})
        assert (retried.status_code, retried.json()) == (202, {"id": run_id, "state": "RUNNING"})
        assert retried.headers["Location"] == f"{RUNS}/{run_id}"
        assert world.executed == []
        await world.house.work()
        assert world.executed == [7]
        assert (await world.get(run_id))["state"] == "SUCCESS"
        again = await world.client.post(f"{prefix}/{run_id}/retry")
        assert (again.status_code, again.json()["code"]) == (409, "replay_refused")


async def test_what_works_on_something_that_is_gone_is_not_retried_p8(world: World) -> None:
    run_id = await world.started("file")
    await world.house.work()
    world.source_exists = False
    refused = await world.client.post(f"{P8}/{run_id}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "replay_refused")
    assert (await world.get(run_id))["state"] == "DLQ_PENDING"


async def test_what_has_not_failed_is_not_retried_p8(world: World) -> None:
    run_id = await world.started()
    assert (await world.client.post(f"{P8}/{run_id}/retry")).status_code == 409
    await world.house.work()
    assert world.executed == [7]


async def test_a_run_of_another_organization_does_not_exist(world: World) -> None:
    """W13, I8: not to be read, not to be changed, not to be found."""
    await world.house.organization("acme")
    run_id = await world.started("file", {"canary": "default-canary"})
    await world.house.work()
    before = await world.get(run_id)
    other = await world.other()
    for look in LOOKS:
        assert (await other.get(f"{RUNS}/{run_id}{look}")).status_code == 404
    for change in (f"{RUNS}/{run_id}/cancel", f"{RUNS}/{run_id}/retry", f"{P8}/{run_id}/retry"):
        assert (await other.post(change)).status_code == 404
    for query in ("", "is:any", f"id:{run_id}", "is:failed"):
        assert (await other.get(RUNS, params={"q": query})).json()["items"] == []
    assert not any(each["number"] for each in (await other.get(f"{RUNS}/counts")).json().values())
    assert await world.get(run_id) == before


async def test_hostile_ids_are_not_found(world: World) -> None:
    for text in HOSTILE:
        for look in LOOKS:
            assert (await world.client.get(f"{RUNS}/{text}{look}")).status_code == 404, text
        for change in ("cancel", "retry"):
            assert (await world.client.post(f"{RUNS}/{text}/{change}")).status_code == 404, text
    assert (await world.client.get(f"{RUNS}/{'x' * 201}")).status_code == 422


async def test_roles_w12(small_world: World) -> None:
    for role, changing in (("VIEWER", 403), ("STAFF", 403), ("ADMIN", 202), ("OWNER", 202)):
        run_id = await small_world.started("file")
        await small_world.house.work()
        client = await small_world.other(role, "default")
        many = {"work": "note", "payloads": [1]}
        assert (await client.post(RUNS, json={"work": "note"})).status_code == changing
        assert (await client.post(f"{RUNS}/many", json=many)).status_code == changing
        assert (await client.get(RUNS)).status_code == 200
        assert (await client.post(f"{P8}/{run_id}/retry")).status_code == changing


async def test_the_refusal_of_a_retry_names_the_permission_to_retry(small_world: World) -> None:
    run_id = await small_world.started("file")
    await small_world.house.work()
    client = await small_world.other("STAFF", "default")
    refused = await client.post(f"{RUNS}/{run_id}/retry")
    assert (refused.status_code, "'retry'" in refused.json()["detail"]) == (403, True)


async def test_a_key_for_starting_can_do_nothing_else(small_world: World) -> None:
    key = await small_world.house.keyed("ADMIN", scopes=["start"])
    started = await key.post(RUNS, json={"work": "note"})
    assert started.status_code == 202
    assert (await key.get(RUNS)).status_code == 403
    assert (await key.post(f"{RUNS}/{started.json()['id']}/cancel")).status_code == 403


async def test_the_spelling_of_p8_is_documented(small_house: House) -> None:
    paths = document(small_house.api)["paths"]
    for prefix in (RUNS, P8):
        assert paths[f"{prefix}/{{id}}/retry"]["post"]["x-permission"] == "retry"
    assert [path for path in paths if path.startswith(P8)] == [f"{P8}/{{id}}/retry"]
    assert not [path for path in paths if path.startswith(JOBS)]
