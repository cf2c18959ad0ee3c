"""Streams, stored events, their replays and rebuilds over HTTP (G12, G13)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful

from redrive.events import Event

EVENTS, STREAMS, REBUILDS = "/api/v1/stored-events", "/api/v1/streams", "/api/v1/rebuilds"


class World:
    """The stream `scores` with two projectors; one of them fails while `broken`."""

    def __init__(self, house: House, admin: httpx.AsyncClient) -> None:
        self.house, self.admin, self.broken = house, admin, False
        self.calls = 0
        stream = house.app.stream("scores", "redis://localhost:1")

        @stream.projector("qscore", types=["score.*"], ordered_by="user", max_attempts=1)
        async def qscore(event: Event) -> None:
            self.calls += 1
            if self.broken:
                raise ValueError("the projection is broken")

        @stream.projector("session")
        async def session(event: Event) -> None: ...

    async def record(self, number: int = 1) -> list[str]:
        events = [
            Event(
                type="score.changed",
                payload={"password": "hunter22"},
                dedupe_key=f"score-{count}",
                user="ana",
            )
            for count in range(number)
        ]
        recorded = await self.house.app.events().record("scores", events)
        await self.house.work()
        return [event.id for event in recorded]

    async def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = await self.admin.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
async def world(house: House) -> AsyncIterator[World]:
    async with truthful(await house.keyed("ADMIN", name="operator"), house.api) as admin:
        yield World(house, admin)


async def test_events_are_listed_counted_and_viewed_g13(world: World) -> None:
    ids = await world.record(3)

    first = await world.ask("GET", EVENTS, params={"q": "is:succeeded projector:qscore", "size": 2})
    rest = await world.ask("GET", EVENTS, params={"cursor": first["next_cursor"]})
    counted = await world.ask("GET", f"{EVENTS}/count", params={"q": "type:score.changed"})
    event = await world.ask("GET", f"{EVENTS}/{ids[0]}")

    assert [found["id"] for found in first["items"] + rest["items"]] == ids[::-1]
    assert counted == {"number": 3, "capped": False}
    assert "payload" not in first["items"][0]
    assert (event["type"], event["user"], event["dedupe_key"]) == ("score.changed", "ana", "score-0")
    assert event["payload"] == {"password": "[redacted:password]"} or "hunter22" not in str(event)
    assert [(found["projector"], found["status"]) for found in event["projections"]] == [
        ("qscore", "succeeded"),
        ("session", "succeeded"),
    ]
    wrong = await world.ask("GET", EVENTS, 422, params={"q": "category:timeout"})
    assert "category" in wrong["detail"]


async def test_an_event_is_replayed_over_http_g12(world: World) -> None:
    [event] = await world.record()
    body = {"projectors": ["qscore"], "reason": "a new formula"}

    preview = await world.ask("POST", f"{EVENTS}/{event}/replay/preview", json=body)
    replayed = await world.ask("POST", f"{EVENTS}/{event[:31]}/replay", 202, json=body)
    refused = await world.ask("POST", f"{EVENTS}/{event}/replay", 409, json=body)
    await world.house.work()

    assert [found["action"] for found in preview["projections"]] == ["start"]
    assert replayed["event_id"] == event
    assert replayed["projections"][0]["run_id"] is not None
    assert "is not finished" in refused["detail"]
    assert world.calls == 2
    await world.ask("POST", f"{EVENTS}/{event}/replay", 404, json={"projectors": ["unknown"]})
    await world.ask("POST", f"{EVENTS}/{event}/replay", 422, json={"projectors": []})


async def test_failed_projections_are_planned_and_started_over_http_g12(world: World) -> None:
    world.broken = True
    await world.record(3)
    world.broken = False
    body = {"query": "is:failed projector:qscore", "limit": 1, "canary": 0, "reason": "fixed"}

    plan = await world.ask("POST", f"{EVENTS}/replay", 201, json=body)
    await world.ask("POST", f"/api/v1/operations/{plan['id']}/start", 202)
    await world.house.work()

    assert plan["plan"]["will_run"] == 1
    assert (await world.ask("GET", f"{EVENTS}/count", params={"q": "is:failed"}))["number"] < 3
    await world.ask("POST", f"{EVENTS}/replay", 422, json={"query": "stream:scores"})
    await world.ask("POST", f"{EVENTS}/replay", 422, json={})


async def test_a_stream_is_viewed_paused_and_resumed(world: World) -> None:
    stream = await world.ask("GET", f"{STREAMS}/scores")
    paused = await world.ask("POST", f"{STREAMS}/scores/pause", json={"reason": "maintenance"})
    again = await world.ask("POST", f"{STREAMS}/scores/pause")
    resumed = await world.ask("POST", f"{STREAMS}/scores/resume")

    assert [found["name"] for found in (await world.ask("GET", STREAMS))["items"]] == ["scores"]
    assert (stream["state"], stream["key"], stream["lag"], stream["gaps"]) == ("active", "scores", None, [])
    assert [(found["name"], found["ordered_by"]) for found in stream["projectors"]] == [
        ("qscore", "user"),
        ("session", None),
    ]
    assert (paused["state"], paused["paused_by"]) == ("paused", "key:operator")
    assert again["paused_at"] == paused["paused_at"]
    assert resumed["state"] == "active"
    audit = await world.ask("GET", "/api/v1/audit", params={"subject": "scores"})
    assert [entry["action"] for entry in audit["items"]] == ["stream.resumed", "stream.paused"]
    await world.ask("GET", f"{STREAMS}/unknown", 404)
    await world.ask("POST", f"{STREAMS}/unknown/pause", 404)


async def test_a_rebuild_is_started_and_steered_over_http_g12(world: World) -> None:
    await world.record(2)
    body = {"projector": "qscore", "rate": 0.001, "since": "2020-01-01T00:00:00Z", "reason": "new"}

    preview = await world.ask("POST", f"{REBUILDS}/preview", json=body)
    started = await world.ask("POST", REBUILDS, 202, json=body)
    address = f"{REBUILDS}/{started['id']}"
    busy = await world.ask("POST", REBUILDS, 409, json=body)
    states = [
        (await world.ask("POST", f"{address}/{verb}", json={"reason": verb}))["state"]
        for verb in ("pause", "resume", "cancel")
    ]

    assert preview == {"stream": "scores", "projector": "qscore", "version": 1, "events": 2}
    assert (started["state"], started["total"], started["created_by"]) == ("RUNNING", 2, "key:operator")
    assert started["since"].startswith("2020-01-01")
    assert "is not finished" in busy["detail"]
    assert states == ["PAUSED", "RUNNING", "CANCELLED"]
    assert (await world.ask("GET", address))["status"] == "cancelled"
    assert [found["id"] for found in (await world.ask("GET", REBUILDS))["items"]] == [started["id"]]
    await world.ask("POST", f"{address}/resume", 409)
    await world.ask("POST", REBUILDS, 404, json={"projector": "unknown"})
    await world.ask("POST", REBUILDS, 422, json={"projector": "qscore", "since": 5})
    done = await world.ask("POST", REBUILDS, 202, json={"projector": "qscore"})
    await world.house.work()
    assert (await world.ask("GET", f"{REBUILDS}/{done['id']}"))["state"] == "DONE"
    assert world.calls == 4
