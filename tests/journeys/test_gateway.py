"""The gateway is down: its work is visibly held, uncharged, other work continues, and all of it resumes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import httpx
import pytest
from tests.journeys.apps import file_exists, quick
from tests.journeys.journal import note
from tests.journeys.world import PATIENCE, World, until
from tests.misbehaving import MisbehavingServer, answer

from redrive.app import Redrive
from redrive.engine.shared_breakers import Probe, SharedBreaker
from redrive.parts import parts_of
from redrive.policy import BreakerPolicy

ORDERS = 12
POLICY = BreakerPolicy(
    window_calls=4,
    window_seconds=None,
    minimum_calls=4,
    cool_down=0.8,
    probe_slots=1,
    successes_to_close=1,
)


def shop(app: Redrive, gateway: MisbehavingServer, max_attempts: int, probe: Probe | None = None) -> None:
    app.breaker("gateway", POLICY, probe=probe)

    @app.task(breaker="gateway", retry=quick(max_attempts=max_attempts))
    async def ship(order: int) -> int:
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{gateway.url}/ship/{order}")).raise_for_status()
        return order

    @app.task
    async def other(number: int) -> int:
        return number


async def breaker_of(app: Redrive) -> SharedBreaker:
    [breaker] = await parts_of(app).breakers.all()
    return breaker


async def all_held(world: World) -> bool:
    return (await world.places()).get("held") == ORDERS


async def held_by_an_open_breaker(world: World, app: Redrive) -> float:
    """Wait until all work is held and the breaker stays open for a while; return until when."""
    until_when: list[float] = []

    async def is_so() -> bool:
        snapshot = (await breaker_of(app)).snapshot if await parts_of(app).breakers.all() else None
        if snapshot is None or snapshot.state != "OPEN" or not await all_held(world):
            return False
        until_when[:] = [snapshot.open_until or 0.0]
        return until_when[0] > time.time() + 0.3

    await until(is_so)
    return until_when[0]


async def test_the_gateway_is_down_and_work_is_held_and_resumes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.engine")
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=4, probe=lambda: is_up(gateway))
        gateway.otherwise(answer(503))
        async with world.working(app, concurrency=4):
            orders = [await app.start("ship", number) for number in range(ORDERS)]
            opened = await held_by_an_open_breaker(world, app)
            for run in [await each.view() for each in orders]:
                state = "RUNNING" if run.attempt else "PENDING"  # only some have called the gateway
                assert (run.state, run.held_by) == (state, "breaker:gateway")
                assert run.step_state in ("PENDING", "RETRYING")
            assert any(each.what == "held" for each in (await orders[-1].history()).events)

            calls = shipments(gateway)
            assert await (await app.start("other", 1)).result(PATIENCE) == 1
            await until(lambda: time.time() > opened + 1.0)
            assert shipments(gateway) == calls  # the health probe has failed meanwhile
            assert await all_held(world)

            gateway.otherwise(answer(200))
            assert [await each.result(PATIENCE) for each in orders] == list(range(ORDERS))
        assert (await breaker_of(app)).state == "CLOSED"

    untouched = [each for each in [await order.history() for order in orders] if len(each.attempts) == 1]
    assert untouched  # all but those in progress when the gateway went down
    told = [vars(each)["fields"] for each in caplog.records if "breaker.changed" in each.getMessage()]
    assert told[0]["breaker_state"] == "OPEN"
    assert told[-1]["breaker_state"] == "CLOSED"


async def is_up(gateway: MisbehavingServer) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{gateway.url}/health")).is_success


def shipments(gateway: MisbehavingServer) -> int:
    return len([each for each in gateway.requests if each.path.startswith("/ship")])


async def test_nothing_is_dispatched_while_the_breaker_is_open_and_probes_find_the_gateway_back(
    world: World,
) -> None:
    """Without a health probe, the breaker lets one run at a time through."""
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=4)
        gateway.otherwise(answer(503))
        async with world.working(app, concurrency=4):
            orders = [await app.start("ship", number) for number in range(ORDERS)]
            opened = await held_by_an_open_breaker(world, app)
            calls = shipments(gateway)
            await until(lambda: time.time() > opened - 0.05)
            assert shipments(gateway) == calls
            await until(lambda: shipments(gateway) > calls)
            gateway.otherwise(answer(200))
            assert [await each.result(PATIENCE) for each in orders] == list(range(ORDERS))


async def test_an_outage_of_many_cool_downs_buries_nothing(world: World) -> None:
    """A run that acts as a probe must not pay for the outage with its own budget."""
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=3)
        app.breaker("gateway", replace(POLICY, cool_down=0.1))
        gateway.otherwise(answer(503))
        async with world.working(app, concurrency=4):
            orders = [await app.start("ship", number) for number in range(ORDERS)]
            await until(lambda: shipments(gateway) >= 30)
            gateway.otherwise(answer(200))
            assert {await each.wait(PATIENCE) for each in orders} == {"SUCCESS"}


async def test_a_person_opens_the_breaker_for_a_while(world: World) -> None:
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=1)
        async with world.working(app):
            breakers = app.breakers(by="ada")
            await breakers.force("gateway", "OPEN", reason="maintenance", seconds=600.0)
            forced = await breaker_of(app)
            assert forced.snapshot.force is not None
            assert (forced.snapshot.force.reason, forced.snapshot.force.by) == ("maintenance", "ada")
            orders = [await app.start("ship", number) for number in range(ORDERS)]
            await until(lambda: all_held(world))
            assert shipments(gateway) == 0
            assert await (await app.start("other", 1)).result(PATIENCE) == 1

            await breakers.force("gateway", "OPEN", reason="almost done", seconds=1.0)
            until_then = (await breaker_of(app)).snapshot.force
            assert until_then is not None
            assert [await order.result(PATIENCE) for order in orders] == list(range(ORDERS))
            assert time.time() > (until_then.until or 0.0)
    for order in orders:
        attempts = (await order.history()).attempts
        assert [each.outcome for each in attempts] == ["succeeded"]


async def test_a_person_closes_the_breaker_and_releases_it_again(world: World) -> None:
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=3)
        await app.breakers(by="ada").force("gateway", "CLOSED", reason="we know better")
        gateway.otherwise(answer(503))
        async with world.working(app, concurrency=4):
            orders = [await app.start("ship", number) for number in range(4)]
            assert {await each.wait(PATIENCE) for each in orders} == {"DLQ_PENDING"}
            assert shipments(gateway) == 12  # each of them has used all of its attempts
            assert (await breaker_of(app)).state == "CLOSED"

            await app.breakers().release("gateway")
            for number in range(ORDERS):
                await app.start("ship", number)
            await until(lambda: all_held(world))
            assert (await breaker_of(app)).state == "OPEN"


async def test_a_person_opens_it_until_further_notice_and_takes_that_back(world: World) -> None:
    app = world.app()
    with MisbehavingServer() as gateway:
        shop(app, gateway, max_attempts=1)
        async with world.working(app):
            await app.breakers(by="ada").force("gateway", "OPEN", reason="incident 7")
            orders = [await app.start("ship", number) for number in range(ORDERS)]
            await until(lambda: all_held(world))
            await app.breakers().release("gateway")
            assert [await each.result(PATIENCE) for each in orders] == list(range(ORDERS))


async def test_work_held_by_a_limit_does_not_keep_the_probe_slots_of_a_breaker(world: World) -> None:
    """The breaker lets three probes through, but the limit of the task is full."""
    app = world.app()
    policy = BreakerPolicy(probe_slots=3, probe_seconds=600.0, successes_to_close=1)
    app.breaker("gateway", policy)
    sign = world.folder / "go on"

    @app.task(breaker="gateway", concurrency=1)
    async def ship(order: int) -> int:
        note("shipping", order=order)
        if order == 0:
            await file_exists(str(sign))
        return order

    async with world.working(app):
        first = await app.start(ship, 0)
        await until(lambda: world.journal.count("shipping") == 1)
        await app.breakers(by="ada").force("gateway", "OPEN", reason="maintenance")
        rest = [await app.start(ship, number) for number in range(1, 4)]
        await until(lambda: held_by(world, "breaker:gateway", 3))
        await app.breakers().release("gateway")
        await until(lambda: held_by(world, "limit:task:ship", 3))
        sign.touch()
        assert [await each.result(15.0) for each in [first, *rest]] == [0, 1, 2, 3]


async def held_by(world: World, name: str, count: int) -> bool:
    return [run.held_by for run in await world.runs()].count(name) == count
