"""The checker raises no false alarm while workers are working, or afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redrive import Backoff, Context, RateLimitedError, RetryableError, RetryPolicy
from redrive.app import Redrive
from redrive.parts import parts_of
from redrive.policy.curve import Exponential
from redrive.policy.jitter import Decorrelated
from redrive.verify import Witness, verify

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNS = 150
RETRY = RetryPolicy(max_attempts=4, backoff=Backoff(Exponential(0.01), 0.05, Decorrelated()))
PATIENCE = 60.0


def register(app: Redrive, effects: Counter[str]) -> None:
    @app.task(retry=RETRY)
    async def take(number: int, context: Context) -> int:
        if number % 3 == context.attempt:
            raise RetryableError("not this time")
        if number % 7 == 0 and context.attempt == 1:
            raise RateLimitedError("slow down", retry_after=0.01)
        if number % 11 == 0:
            raise RetryableError("never")
        effects[context.idempotency_key] += 1
        return number

    @app.task(retry=RETRY, concurrency=3)
    async def pack(number: int, context: Context) -> int:
        await asyncio.sleep(0.001)
        if number % 5 == context.attempt:
            raise RetryableError("not this time")
        effects[context.idempotency_key] += 1
        return number

    app.workflow("order", [take, pack])


async def test_no_false_alarm(app: Redrive) -> None:
    effects: Counter[str] = Counter()
    register(app, effects)
    looks = 0
    async with asyncio.timeout(PATIENCE), app.worker(poll_seconds=0.02), app.worker(poll_seconds=0.02):
        started = [each.id for each in await app.start_many("order", range(RUNS))]
        async with asyncio.TaskGroup() as group:
            for run_id in started[::10]:
                group.create_task(app.run(run_id).cancel())
            while any(run.place != "ended" for run in await parts_of(app).store.runs.all()):
                verdict = await verify(parts_of(app).database)
                assert verdict.sound, str(verdict)
                looks += 1
    verdict = await verify(parts_of(app).database, settled=True, witness=Witness(started, effects=effects))
    assert verdict.sound, str(verdict)
    assert looks > 1
    unchecked = {name for name, rows in verdict.checked.items() if not rows}
    assert unchecked == {"I15"}, "only leases are gone when everything has ended"


async def test_work_that_no_worker_knows_is_stuck(app: Redrive) -> None:
    @app.task
    async def ship() -> None: ...

    @app.task
    async def price() -> None: ...

    run = await app.start(ship)
    async with asyncio.timeout(PATIENCE), app.worker(poll_seconds=0.02, workflows=("price",)):
        while (await run.view()).held_by is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        verdict = await verify(parts_of(app).database, leeway=0.01)
    assert [found.text for found in verdict.findings if found.subject == "task:ship"] == [
        "It holds 1 run, but no worker knows the task 'ship'."
    ]
    await run.cancel()
