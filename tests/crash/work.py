"""The work of a campaign: plain jobs, threads, limited jobs, retries, dead letters, workflows.

Some dead letters succeed when they are replayed, once or twice; Redrive redrives others automatically. Every
step has one side effect, at its end, which carries its fence.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

from tests.crash.sink import Line
from tests.crash.trap import Trap

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.errors import FinalError
from redrive.policy import Backoff, Equal, Exponential, RetryPolicy

ORGS = ("red", "green", "blue")
WORKFLOWS = {
    "charge": 6,
    "label": 2,
    "scarce": 2,
    "flaky": 4,
    "doomed": 2,
    "broken": 3,
    "redriven": 3,
    "order": 5,
}
"""How often each of them is started, as a share."""

Payload = dict[str, Any]


def payload(random: Random) -> Payload:
    longest = 0.6 if random.random() < 0.1 else 0.05
    return {
        "seconds": random.uniform(0.005, longest),
        "fails": random.choice((1, 1, 2)),
        "works_in_replay": random.choice((1, 1, 2)),
        "order_fails": random.random() < 0.3,
    }


def _retry(max_attempts: int) -> RetryPolicy:
    backoff = Backoff(Exponential(0.1), cap=60.0, jitter=Equal())
    return RetryPolicy(max_attempts=max_attempts, backoff=backoff)


def replay(context: Context) -> int:
    """Return the number of the run's current replay."""
    return context._claim.replays


def define(app: Redrive, line: Line, trap: Trap) -> None:
    def effect(context: Context) -> Payload:
        trap.reach("effect", "before")
        facts = {"key": context.idempotency_key, "attempt": context.attempt, "fence": context.fence}
        line.tell("effect", replay=replay(context), **facts)
        trap.reach("effect", "after")
        run_input: Any = context.run_input
        return {**run_input, "fence": context.fence}

    async def act(work: Payload, context: Context) -> Payload:
        await asyncio.sleep(work["seconds"])
        return effect(context)

    @app.task
    async def charge(work: Payload, context: Context) -> Payload:
        return await act(work, context)

    @app.task
    def label(work: Payload, context: Context) -> Payload:
        time.sleep(work["seconds"])
        return effect(context)

    @app.task(concurrency=4)
    async def scarce(work: Payload, context: Context) -> Payload:
        return await act(work, context)

    @app.task(retry=_retry(4))
    async def flaky(work: Payload, context: Context) -> Payload:
        if context.failures < work["fails"]:
            raise ConnectionError("not yet")
        return await act(work, context)

    @app.task(retry=_retry(2))
    async def doomed(work: Payload, context: Context) -> None:
        await asyncio.sleep(work["seconds"])
        raise ConnectionError("never")

    @app.task(max_attempts=1)
    async def broken(work: Payload, context: Context) -> Payload:
        if replay(context) < work["works_in_replay"]:
            raise FinalError("it does not work yet")
        return await act(work, context)

    @app.task(max_attempts=1, redrive="immediate", max_redrives=2)
    async def redriven(work: Payload, context: Context) -> Payload:
        if replay(context) < 1 + work["works_in_replay"]:  # the second redrive succeeds, or is the last
            raise ConnectionError("not yet")
        return await act(work, context)

    @app.task
    async def reserve(work: Payload, context: Context) -> Payload:
        return await act(work, context)

    @app.task(retry=_retry(4))
    async def pay(work: Payload, context: Context) -> Payload:
        if work["order_fails"] and not replay(context):
            raise FinalError("no such account")
        if context.failures < work["fails"] - 1:
            raise ConnectionError("not yet")
        return await act(work, context)

    @app.task(queue="shipping")
    async def ship(work: Payload, context: Context) -> Payload:
        return await act(work, context)

    app.workflow("order", [reserve, pay, ship])
