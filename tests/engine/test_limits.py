"""Limits of concurrency over all workers: never exceeded, and always freed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import (
    EventCollector,
    app_at,
    bench,
    check_ended,
    lose_lease,
    new_app,
    seamed,
    settle,
    slots_in_use,
    working,
)

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.errors import RateLimitedError
from redrive.model.event import HeldReleased, StepHeld
from redrive.parts import parts_of
from redrive.policy import Exponential

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0)))


class Meter:
    """Counts how many executions of each name are in progress at once."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.total = 0

    async def __call__(self, name: str) -> None:
        self.inside[name] += 1
        self.total += 1
        self.most[name] = max(self.most[name], self.inside[name])
        for _ in range(5):
            await asyncio.sleep(0)
        self.inside[name] -= 1


async def test_a_task_executes_no_more_often_at_once_than_its_limit() -> None:
    app, meter = new_app(), Meter()
    emitted = EventCollector(app)

    @app.task(concurrency=3)
    async def work(number: int) -> None:
        await meter("work")

    async with seamed(app, watch=True) as (test, _):
        runs = await app.start_many(work, range(20))
        await test.drain()
        await check_ended(app, 20)
        assert await slots_in_use(app) == {"task:work": 0}
        assert {(await run.view()).attempt for run in runs} == {1}
    assert meter.most["work"] == 3
    assert meter.total == 20
    assert {each.held_by for each in emitted.of(StepHeld)} == {"limit:task:work"}
    assert sum(each.runs for each in emitted.of(HeldReleased)) == len(emitted.of(StepHeld))


async def test_each_key_has_its_own_limit() -> None:
    app, meter = new_app(), Meter()

    @app.task(concurrency=2, concurrency_key=lambda payload: payload["user"])
    async def work(order: dict[str, Any]) -> None:
        await meter(order["user"])

    async with bench(app) as test:
        await app.start_many(work, [{"user": user} for user in "aaaaaabbbbbbc"])
        await test.drain()
        await check_ended(app, 13)
        assert set(await slots_in_use(app)) == {
            "key:default|work|a",
            "key:default|work|b",
            "key:default|work|c",
        }
    assert meter.most == {"a": 2, "b": 2, "c": 1}


async def test_each_org_has_a_limit_over_all_of_its_tasks() -> None:
    app, meter = new_app(org_concurrency=2), Meter()

    @app.task
    async def one(context: Context) -> None:
        await meter(context.org)

    @app.task(concurrency=1)
    async def two(context: Context) -> None:
        await meter(context.org)
        await meter("two")

    async with bench(app) as test:
        for org in ("acme", "other"):
            await app.start_many(one, [None] * 6, org=org)
            await app.start_many(two, [None] * 6, org=org)
        await test.drain()
        await check_ended(app, 24)
        assert set(await slots_in_use(app)) == {"org:acme", "org:other", "task:two"}
    assert meter.most == {"acme": 2, "other": 2, "two": 1}


async def test_a_limit_key_that_fails_limits_nothing_and_loses_nothing() -> None:
    app = new_app()

    def broken(payload: Any) -> str:
        raise KeyError("user")

    @app.task(concurrency=1, concurrency_key=broken)
    async def work() -> int:
        return 1

    async with bench(app) as test:
        assert await test.execute(work) == 1


@pytest.mark.parametrize(
    "key", [5, None, "x" * 10_000, "nul \x00 and \ud800", ("a", 1)], ids=lambda key: ascii(key)[:20]
)
async def test_odd_keys_work_as_limits(key: Any) -> None:
    app = new_app()

    @app.task(concurrency=1, concurrency_key=lambda payload: key)
    async def work() -> int:
        return 1

    async with bench(app, timeout=3.0) as test:
        runs = await app.start_many(work, [None] * 3)
        await test.drain()
        assert [await run.state() for run in runs] == ["SUCCESS"] * 3
        await check_ended(app, 3)


async def limited(app: Redrive) -> int:
    return sum((await slots_in_use(app)).values())


@pytest.mark.parametrize(
    "how", ["succeed", "fail", "retry", "rate limit", "defer", "lose", "lose and fail", "exit"]
)
async def test_a_slot_is_freed_however_it_ends(how: str) -> None:
    app = new_app(org_concurrency=5)
    during: list[int] = []

    @app.task(concurrency=1, retry=TWICE)
    async def work(context: Context) -> None:
        during.append(await limited(app))
        if context.attempt > 1 or how == "succeed":
            return
        if how == "fail":
            raise ValueError
        if how == "retry":
            raise ConnectionError
        if how == "rate limit":
            raise RateLimitedError(retry_after=3.0)
        if how == "defer":
            context.defer(5.0)
        if how == "exit":
            raise SystemExit
        await lose_lease(app, context.run_id)
        if how == "lose and fail":
            raise ConnectionError

    async with seamed(app, watch=True) as (test, _):
        await app.start_many(work, [None] * 3)
        await settle(test, app)
        await check_ended(app, 3)
        assert await slots_in_use(app) == {"task:work": 0, "org:default": 0}
    assert set(during) == {2}


async def test_a_waiting_retry_does_not_keep_its_slot() -> None:
    app = new_app()
    order: list[str] = []

    @app.task(concurrency=1, retry=TWICE)
    async def work(name: str, context: Context) -> None:
        order.append(name)
        if name == "a" and context.attempt == 1:
            raise ConnectionError

    async with bench(app) as test:
        await app.start(work, "a")
        await app.start(work, "b")
        await test.drain()
        assert order == ["a", "b"]
        await test.advance(1.0)
    assert order == ["a", "b", "a"]


async def test_the_next_step_of_a_run_asks_for_its_own_slot() -> None:
    app, meter = new_app(), Meter()

    @app.task(concurrency=2)
    async def first() -> None:
        await meter("first")

    @app.task(concurrency=1)
    async def second(_: None) -> None:
        await meter("second")

    app.workflow("flow", [first, second])
    async with seamed(app, watch=True) as (test, _):
        await app.start_many("flow", [None] * 8)
        await test.drain()
        await check_ended(app, 8)
    assert meter.most == {"first": 2, "second": 1}


async def test_two_workers_share_a_limit(tmp_path: Path) -> None:
    app, other, meter = app_at(tmp_path / "work.db"), app_at(tmp_path / "work.db"), Meter()

    async def work(number: int) -> int:
        await meter("work")
        await asyncio.sleep(0.005)
        return number

    for each in (app, other):
        each.task(concurrency=2)(work)
    async with working(app, concurrency=4), working(other, concurrency=4):
        runs = await app.start_many("work", range(16))
        assert [await run.result(8) for run in runs] == list(range(16))
        assert await slots_in_use(app) == {"task:work": 0}
    assert meter.most["work"] <= 2


async def test_a_limit_that_was_lowered_holds_at_once() -> None:
    app, meter = new_app(), Meter()

    @app.task(concurrency=4)
    async def work() -> None:
        await meter("work")

    async with bench(app) as test:
        await app.start_many(work, [None] * 8)
        await test.drain()
        assert meter.most["work"] == 4
        meter.most.clear()
        object.__setattr__(parts_of(app).registry.tasks["work"], "concurrency", 2)
        await app.start_many(work, [None] * 8)
        await test.drain()
        await check_ended(app, 16)
    assert meter.most["work"] == 2


# The gate and a database that fails


async def test_a_lost_answer_at_the_gate_takes_no_slot_forever() -> None:
    app = new_app()

    @app.task(concurrency=1)
    async def work() -> int:
        return 1

    async with seamed(app, timeout=3.0) as (test, seam):
        run = await app.start(work)
        seam.fail("occupy", after=True)
        await test.drain()
        assert seam.triggered == ["occupy"]
        await test.advance(120)
        assert await run.state() == "SUCCESS"
        await check_ended(app, 1)


@pytest.mark.parametrize("runs", [2, 3, 5])
async def test_a_lost_answer_at_the_gate_counts_no_slot_twice(runs: int) -> None:
    app = new_app()

    @app.task(concurrency=3)
    async def work() -> int:
        return 1

    async with seamed(app, timeout=3.0) as (test, seam):
        await app.start_many(work, [None] * runs)
        seam.fail("occupy", after=True)
        await test.drain()
        await test.advance(120)
        await check_ended(app, runs)


async def test_a_failure_at_the_gate_takes_no_slot() -> None:
    app = new_app()

    @app.task(concurrency=1)
    async def work() -> int:
        return 1

    async with seamed(app, timeout=3.0) as (test, seam):
        runs = await app.start_many(work, [None] * 3)
        seam.fail("occupy", times=3)
        await test.drain()
        assert [await run.state() for run in runs] == ["SUCCESS"] * 3
        await check_ended(app, 3)


async def test_a_lease_that_is_lost_before_the_gate_leaves_nothing_behind() -> None:
    app = new_app()

    @app.task(concurrency=1)
    async def work() -> int:
        return 1

    async with seamed(app, timeout=3.0) as (test, seam):
        run = await app.start(work)
        seam.after("claim", lambda: lose_lease(app, run.id))
        await test.drain()
        await settle(test, app)
        assert await run.result() == 1
        await check_ended(app, 1)


async def test_a_full_limit_with_a_lost_slot_is_not_full_forever() -> None:
    """A worker died with its slot; the worker that records the lost attempt frees the slot."""
    app = new_app()

    @app.task(concurrency=1)
    async def work(context: Context) -> int:
        if context.attempt == 1 and context.run_id == first.id:
            await lose_lease(app, context.run_id)
        return 1

    async with seamed(app, watch=True) as (test, _):
        first = await app.start(work)
        second = await app.start(work)
        await settle(test, app)
        assert [await first.result(), await second.result()] == [1, 1]
        await check_ended(app, 2)


async def test_no_payload_can_end_the_worker_by_its_key(tmp_path: Path) -> None:
    """Keys derive from user input: one that cannot be stored must not stop other work."""
    app = app_at(tmp_path / "work.db")

    @app.task(concurrency=1, concurrency_key=lambda payload: payload["user"])
    async def work(order: dict[str, Any]) -> int:
        return 1

    @app.task
    async def other() -> str:
        return "done"

    async with working(app, timeout=5.0):
        run = await app.start(work, {"user": "lone \ud800 surrogate"})
        await asyncio.sleep(0.1)
        assert await (await app.start(other)).result(3) == "done"
        assert await run.result(3) == 1


async def test_a_limit_that_is_forgotten_before_its_work_is_held_does_not_hold_it_forever() -> None:
    app, begun, leave = new_app(), asyncio.Event(), asyncio.Event()

    @app.task(concurrency=1)
    async def work(number: int) -> int:
        begun.set()
        await leave.wait()
        return number

    async with seamed(app) as (test, seam):
        first = await app.start(work, 1)
        working_first = asyncio.create_task(test.drain())
        await begun.wait()
        await app.start(work, 2)

        async def meanwhile() -> None:
            """Let the first run end, and let a worker forget unused counters."""
            leave.set()
            while (await first.view()).place != "ended":
                await asyncio.sleep(0)
            await parts_of(app).store.limits.forget_limits()

        seam.after("save_limit", meanwhile)
        await parts_of(app).worker_in_test().work_off()
        await working_first
        assert "save_limit" in seam.executed
        await settle(test, app)
        await check_ended(app, 2)
