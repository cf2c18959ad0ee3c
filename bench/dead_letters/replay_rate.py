"""How many dead letters per second Redrive replays, singly and in bulk, compared with the plain work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import NamedTuple

from bench.dead_letters.processor import ProcessorTime
from bench.dead_letters.worker import Mended
from bench.dead_letters.worker_process import worker
from bench.work import drain, fill_database
from bench.work.contender import Entry
from bench.work.jobs import Kind, payload
from bench.work.statements import fetch
from bench.work.workers import PATIENCE, Workers

from redrive.failures.service import Failures
from redrive.model.replay import OperationState, ReplayState

LOOK_INTERVAL = 0.01


class Many(NamedTuple):
    """The figures of a bulk replay.

    rate             from the first start of a replay to the last end
    rate_from_start  from the start of the operation until its state is DONE
    effort           microseconds of processor time per replay
    planning         milliseconds to plan the operation; `starting`: milliseconds to start it
    """

    rate: float
    rate_from_start: float
    effort: float
    planning: float
    starting: float


async def plain(entry: Entry, url: str, count: int) -> tuple[float, float]:
    """Return the rate and processor time of the same jobs without a failure, as for burying."""
    contender = Mended(url)
    await contender.prepare()
    await drain.enqueue(entry, contender, Kind.FAIL, count)
    with worker(url, Kind.NOTHING) as group:
        await group.ready()
        processor = ProcessorTime(contender.app, group.pids)
        await processor.start()
        rate = await drain.measured(contender, group, Kind.NOTHING, count)
        return rate, await processor.microseconds() / count


async def one_by_one(url: str, count: int, callers: int) -> float:
    """Request each replay when the previous one is durably started, until all have ended."""
    async with _dead(url, count) as (failures, group, contender):
        ids = iter([each.id for each in (await failures.list("is:open", size=count)).lines])

        async def call() -> None:
            for letter_id in ids:
                await failures.replay(letter_id)

        started = monotonic()
        await asyncio.gather(*(call() for _ in range(callers)))
        await _all_ended(contender, group)
        return count / (monotonic() - started)


async def many(url: str, count: int) -> Many:
    """Replay in bulk, without a canary, which waits on purpose."""
    async with _dead(url, count) as (failures, group, contender):
        processor = ProcessorTime(contender.app, group.pids)
        begun = monotonic()
        plan = await failures.plans.create(
            query="is:open", canary=0, expect=count, reason="the cause is gone"
        )
        planned = monotonic()
        await processor.start()
        await failures.plans.start(plan.operation_id)
        started = monotonic()
        while (await failures.plans.view(plan.operation_id)).state != OperationState.DONE:
            group.check(started + PATIENCE)
            await asyncio.sleep(0.1)
        ended, effort = monotonic(), await processor.microseconds() / count
        report = await failures.plans.report(plan.operation_id)
        if report.items[ReplayState.SUCCEEDED] != count or group.counters.begun != count + 1:
            raise RuntimeError(
                f"{group.counters.begun - 1} jobs were begun for {count} replays: {report.items}"
            )
        rates = (count / (report.seconds or 1.0), count / (ended - started))
        return Many(*rates, effort, (planned - begun) * 1e3, (started - planned) * 1e3)


@asynccontextmanager
async def _dead(url: str, count: int) -> AsyncIterator[tuple[Failures, Workers, Mended]]:
    """Create this many dead letters, and a worker that is known to work."""
    await fill_database.fill(url, "dead", count - 1)  # plus the original of the copies
    contender = Mended(url)
    async with contender.app as app:
        failures = app.failures(by="ana")
        with worker(url, Kind.NOTHING) as group:
            await contender.enqueue_many(Kind.FAIL, [payload(0)])
            await group.begin_together()
            await group.until(lambda: group.counters.done > 0, LOOK_INTERVAL)
            yield failures, group, contender


async def _all_ended(contender: Mended, group: Workers) -> None:
    deadline = monotonic() + PATIENCE
    while (await fetch(contender.app, _RUNNING))[0][0]:
        group.check(deadline)
        await asyncio.sleep(LOOK_INTERVAL)


_RUNNING = "SELECT count(*) FROM redrive.replays WHERE state = 'RUNNING'"
