"""What all organizations share, over HTTP: queues, breakers, workers, settings (P4, P10, M9, W13)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.server.house import House, new_app, served
from tests.server.openapi_check import truthful

from redrive.parts import parts_of
from redrive.settings import SETTINGS

QUEUES, BREAKERS = "/api/v1/queues", "/api/v1/breakers"
WORKERS, SETTINGS_ROUTE = "/api/v1/workers", "/api/v1/settings"
REASON = "the bank asks for a pause"
CHANGES: dict[str, Any] = {
    f"{QUEUES}/default/pause": {"reason": "x"},
    f"{QUEUES}/default/resume": None,
    f"{BREAKERS}/bank/force": {"state": "OPEN", "reason": "x"},
    f"{BREAKERS}/bank/release": None,
}
HOSTILE = ("nothing", "%00", "a%00b", "%ED%A0%80", "%F0%9F%92%A5", "'%20OR%201=1--", "..%2Fx", "%25s")


class World:
    """`pay` needs the bank and has its own queue; the organization acme may not administer shared state."""

    def __init__(self, house: House, admin: httpx.AsyncClient, acme: httpx.AsyncClient) -> None:
        self.house = house
        self.admin = admin
        self.acme = acme

        @house.app.task(breaker="bank", queue="money/eu west")
        async def pay(order: Any = None) -> None:
            pass

        self.worker = parts_of(house.app).worker_in_test()
        """This worker also works on the queue of `pay`."""

    async def queue(self, client: httpx.AsyncClient, name: str) -> dict[str, Any]:
        [found] = [each for each in (await client.get(QUEUES)).json()["items"] if each["name"] == name]
        return dict(found)

    async def control(self, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.admin.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def everything(self) -> list[Any]:
        """Everything that a rejected change must not alter."""
        app = self.house.app
        heads = [await app.failures(org=org).audit.head() for org in ("default", "acme")]
        return [
            await app.queues().list(),
            [each.snapshot.force for each in await parts_of(app).breakers.all()],
            heads,
        ]


@pytest.fixture
async def world(house: House) -> AsyncIterator[World]:
    await house.organization("acme")
    async with (
        truthful(await house.keyed("ADMIN", name="operator"), house.api) as admin,
        truthful(await house.keyed("OWNER", "acme"), house.api) as acme,
    ):
        yield World(house, admin, acme)


async def test_queues_show_each_organization_its_own_work_and_home_all_work(world: World) -> None:
    for org, number in (("default", 1), ("acme", 2)):
        for _ in range(number):
            await world.house.app.start("pay", org=org)
    home = await world.queue(world.admin, "money/eu west")
    acme = await world.queue(world.acme, "money/eu west")
    assert (home["own"]["ready"], home["overall"]["ready"]) == (
        {"number": 1, "capped": False},
        {"number": 3, "capped": False},
    )
    assert (acme["own"]["ready"]["number"], acme["overall"]) == (2, None)
    assert acme["own"]["oldest_ready_seconds"] >= 0.0
    assert (await world.queue(world.acme, "default"))["own"]["ready"]["number"] == 0


async def test_a_queue_is_paused_and_resumed(world: World) -> None:
    await world.house.app.start("pay")
    await world.house.app.start("greet")
    paused = await world.control(f"{QUEUES}/money%2Feu%20west/pause", reason=REASON)
    assert (paused["name"], paused["paused"], paused["paused_by"]) == ("money/eu west", True, "key:operator")
    assert paused["reason"] == REASON
    await world.worker.work_off()
    assert (await world.queue(world.admin, "money/eu west"))["own"]["ready"]["number"] == 1
    assert (await world.queue(world.admin, "default"))["own"]["ready"]["number"] == 0
    seen = await world.queue(world.acme, "money/eu west")
    assert (seen["paused"], seen["paused_by"], seen["reason"]) == (True, None, None)
    resumed = await world.control(f"{QUEUES}/money%2Feu%20west/resume")
    assert (resumed["paused"], resumed["paused_at"], resumed["reason"]) == (False, None, None)
    await world.worker.work_off()
    assert (await world.queue(world.admin, "money/eu west"))["own"]["ready"]["number"] == 0
    actions = [each["action"] for each in (await world.admin.get("/api/v1/audit")).json()["items"]]
    assert actions[:2] == ["queue.resumed", "queue.paused"]


async def test_a_queue_that_only_workers_know_is_paused_too(house: House) -> None:
    """A server without the code of the tasks: `redrive serve` with only a database."""
    await parts_of(house.app).store.limits.heartbeat("w1", "v1", '["mail"]', 10, 0, "working", "host", 7)
    async with truthful(await house.keyed("ADMIN"), house.api) as client:
        assert "mail" in [each["name"] for each in (await client.get(QUEUES)).json()["items"]]
        assert (await client.post(f"{QUEUES}/mail/pause")).json()["paused"] is True
        assert (await client.post(f"{QUEUES}/mal/pause")).status_code == 404


async def test_a_breaker_shows_its_state_and_the_held_work_of_the_caller(world: World) -> None:
    """P4, W13."""
    unused = (await world.admin.get(f"{BREAKERS}/bank")).json()
    assert (unused["state"], unused["calls"], unused["force"]) == ("CLOSED", 0, None)
    assert unused["policy"]["cool_down"] == 30.0
    forced = await world.control(f"{BREAKERS}/bank/force", state="OPEN", reason=REASON, seconds=600)
    assert (forced["state"], forced["force"]["by"]) == ("OPEN", "key:operator")
    assert forced["open_until"] == forced["force"]["until"] is not None
    for org, number in (("default", 1), ("acme", 2)):
        for _ in range(number):
            await world.house.app.start("pay", org=org)
    await world.worker.work_off()
    [home] = (await world.admin.get(BREAKERS)).json()["items"]
    [acme] = (await world.acme.get(BREAKERS)).json()["items"]
    assert home["waiting"] == {"number": 1, "capped": False}
    assert acme["waiting"] == {"number": 2, "capped": False}
    assert (home["force"]["reason"], acme["force"]["reason"], acme["force"]["by"]) == (REASON, None, None)
    capped = await parts_of(world.house.app).store_of("acme").run_lists.held("acme", most=1)
    assert capped.by("breaker:bank") == (1, True)
    assert REASON not in (await world.acme.get(f"{BREAKERS}/bank")).text
    released = await world.control(f"{BREAKERS}/bank/release")
    assert (released["state"], released["force"]) == ("HALF_OPEN", None)
    closed = await world.control(f"{BREAKERS}/bank/force", state="CLOSED", reason="it is back")
    assert (closed["state"], closed["force"]["until"]) == ("CLOSED", None)


async def test_an_unknown_breaker_is_not_created(world: World) -> None:
    before = await world.everything()
    for name in HOSTILE:
        body = {"state": "OPEN", "reason": "x"}
        assert (await world.admin.get(f"{BREAKERS}/{name}")).status_code == 404, name
        assert (await world.admin.post(f"{BREAKERS}/{name}/force", json=body)).status_code == 404, name
        assert (await world.admin.post(f"{BREAKERS}/{name}/release")).status_code == 404, name
    assert await world.everything() == before


async def test_an_unknown_queue_is_not_created(world: World) -> None:
    before = await world.everything()
    for name in HOSTILE:
        for how in ("pause", "resume"):
            assert (await world.admin.post(f"{QUEUES}/{name}/{how}")).status_code in (404, 422), name
    assert await world.everything() == before


async def test_invalid_overrides_of_a_breaker_are_rejected(world: World) -> None:
    good = {"state": "OPEN", "reason": "x"}
    before = await world.everything()
    for bad in (
        {"state": "HALF_OPEN"},
        {"state": "open"},
        {"reason": ""},
        {"reason": "x" * 2001},
        {"seconds": 0},
        {"seconds": -1},
        {"seconds": 1e12},
        {"by": "somebody"},
    ):
        answer = await world.admin.post(f"{BREAKERS}/bank/force", json={**good, **bad})
        assert answer.status_code == 422, bad
    assert (await world.admin.post(f"{BREAKERS}/bank/force")).status_code == 422
    assert await world.everything() == before


async def test_shared_state_is_changed_only_from_home_with_the_permission(world: World) -> None:
    """W12: owners of another organization and callers who may only read are rejected."""
    lookers = [await world.house.keyed(role) for role in ("VIEWER", "STAFF")]
    before = await world.everything()
    for path, body in CHANGES.items():
        foreign = await world.acme.post(path, json=body)
        assert (foreign.status_code, foreign.json()["code"]) == (403, "not_at_home")
        for client in lookers:
            assert (await client.post(path, json=body)).status_code == 403
    assert await world.everything() == before


async def test_workers_are_shown_and_where_they_run_at_home_only(world: World) -> None:
    await parts_of(world.house.app).store.limits.heartbeat(
        "w1", "v1", '["default"]', 10, 3, "working", "host-7", 77
    )
    [home] = (await world.admin.get(WORKERS)).json()["items"]
    [acme] = (await world.acme.get(WORKERS)).json()["items"]
    assert (home["id"], home["queues"], home["in_flight"], home["state"]) == ("w1", ["default"], 3, "working")
    assert (home["host"], home["process"]) == ("host-7", 77)
    assert (acme["id"], acme["host"], acme["process"]) == ("w1", None, None)
    await parts_of(world.house.app).store.limits.note_blocked("w1", 7.0, None)
    [blocked] = (await world.admin.get(WORKERS)).json()["items"]
    assert blocked["status"] == "blocked"


async def test_settings_are_shown_to_owners_at_home_without_their_secrets() -> None:
    """P10, M9, I9."""
    secret, key = "oidc-secret-canary", "A" * 43 + "="
    settings: dict[str, Any] = {
        "oidc_issuer": "https://id.example",
        "oidc_client_id": "redrive",
        "encryption_keys": (key,),
    }
    async with served(new_app("sqlite://:memory:", oidc_client_secret=secret, **settings)) as house:
        await house.organization("acme")
        owner = truthful(await house.keyed("OWNER"), house.api)
        answer = await owner.get(SETTINGS_ROUTE)
        shown = {each["name"]: each for each in answer.json()["items"]}
        assert list(shown) == [each.name for each in SETTINGS]
        assert secret not in answer.text
        assert key not in answer.text
        assert (shown["oidc_client_secret"]["value"], shown["oidc_client_secret"]["secret"]) == ("***", True)
        rate = shown["server_key_rate"]
        assert (rate["value"], rate["default"], rate["origin"]) == (100_000, 100, "code")
        assert rate["allowed"] == "a whole number from 1 to 100,000"
        assert shown["worker_concurrency"]["alias"] == "WORKER_CONCURRENCY"
        for role, org in (("ADMIN", "default"), ("VIEWER", "default"), ("OWNER", "acme")):
            assert (await (await house.keyed(role, org)).get(SETTINGS_ROUTE)).status_code == 403
