"""A healthy history, made by the real engine: runs that have ended in every way, and runs in every place."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.engine.workbench import PATIENCE

from redrive import Backoff, Context, RateLimitedError, RetryableError, RetryPolicy
from redrive.app import Redrive
from redrive.model.run import Place, RunState
from redrive.parts import parts_of
from redrive.policy.curve import Linear
from redrive.policy.jitter import Equal, Full

QUICK = RetryPolicy(max_attempts=3, backoff=Backoff(Linear(0.02, 0.0), jitter=Full()))
PATIENT = RetryPolicy(max_attempts=3, backoff=Backoff(Linear(3600.0, 0.0), jitter=Equal()))
FLAKY_RUNS = 15


@dataclass
class History:
    app: Redrive
    runs: dict[str, str] = field(default_factory=dict)
    """The ids of the runs by what became of them."""
    effects: Counter[str] = field(default_factory=Counter)

    async def make(self) -> None:
        register(self.app, self.effects)
        await self.app.open()
        await self.app.queues().pause("paused")
        for name, (work, options) in _STARTS.items():
            self.runs[name] = (await self.app.start(work, **options)).id
        await self.app.start_many("flaky", [None] * FLAKY_RUNS)
        await self.app.run(self.runs["cancelled"]).cancel()
        await self.app.breakers().force("mail", "OPEN", reason="test")
        worker = self.app.worker(poll_seconds=0.02, lease_seconds=3600.0, queues=("default",))
        dying = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            await self._arrive()
            dying.cancel()  # as if killed: what it was executing stays leased
            await asyncio.gather(dying, return_exceptions=True)

    async def _arrive(self) -> None:
        """Wait until every run is where it belongs."""
        while not await self._arrived():
            await asyncio.sleep(0.02)

    async def _arrived(self) -> bool:
        places = {run.id: run.place for run in await parts_of(self.app).store.runs.all()}
        known = {self.runs[name]: place for name, place in _PLACES.items()}
        return all(place == known.get(run_id, Place.ENDED) for run_id, place in places.items())

    async def check_made(self) -> None:
        """Everything that the checker is to look at is really there."""
        runs = {run.id: run for run in await parts_of(self.app).store.runs.all()}
        states = {name: runs[run_id].state for name, run_id in self.runs.items()}
        assert {name: states[name] for name in _ENDED} == _ENDED
        assert runs[self.runs["flaky"]].attempt == 3
        assert runs[self.runs["deferred"]].failures == 1
        assert runs[self.runs["limited"]].held_by == "limit:task:alone_at_work"
        assert runs[self.runs["broken"]].held_by == "breaker:mail"
        assert runs[self.runs["second"]].is_parked


_STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("single", {}),
    "flaky": ("flaky", {"key": "order-7"}),
    "hinted": ("hinted", {}),
    "dead": ("dead", {}),
    "final": ("final", {}),
    "workflow": ("three steps", {}),
    "cancelled": ("single", {"delay": 3600.0}),
    "future": ("single", {"delay": 3600.0}),
    "ready": ("single", {"queue": "paused"}),
    "first": ("single", {"queue": "paused", "order_key": "a"}),
    "second": ("single", {"queue": "paused", "order_key": "a"}),
    "fading": ("fading", {}),
    "deferred": ("deferred", {}),
    "midway": ("two steps", {}),
    "leased": ("alone_at_work", {"priority": 9}),
    "limited": ("alone_at_work", {}),
    "broken": ("mail", {}),
}
_PLACES = {
    "future": Place.WAITING,
    "ready": Place.READY,
    "first": Place.READY,
    "second": Place.WAITING,
    "fading": Place.WAITING,
    "deferred": Place.WAITING,
    "midway": Place.WAITING,
    "leased": Place.LEASED,
    "limited": Place.HELD,
    "broken": Place.HELD,
}
_ENDED = {
    "single": RunState.SUCCESS,
    "flaky": RunState.SUCCESS,
    "hinted": RunState.SUCCESS,
    "dead": RunState.DLQ_PENDING,
    "final": RunState.DLQ_PENDING,
    "workflow": RunState.SUCCESS,
    "cancelled": RunState.CANCELLED,
}


def register(app: Redrive, effects: Counter[str]) -> None:
    parts_of(app).registry.queues.add("paused")

    @app.task
    async def single(context: Context) -> str:
        effects[context.idempotency_key] += 1
        return "done"

    @app.task(retry=QUICK)
    async def flaky(context: Context) -> str:
        if context.attempt < 3:
            raise RetryableError("not yet")
        effects[context.idempotency_key] += 1
        return "done"

    @app.task(retry=QUICK, effect="none")
    async def hinted(context: Context) -> None:
        if context.attempt == 1:
            raise RateLimitedError("slow down", retry_after=0.01)

    @app.task(retry=QUICK)
    async def dead() -> None:
        raise RetryableError("never")

    @app.task(retry=QUICK)
    async def final() -> None:
        raise ValueError("wrong for good")

    @app.task(retry=PATIENT)
    async def fading() -> None:
        raise RetryableError("not for an hour")

    @app.task(retry=PATIENT)
    async def deferred(context: Context) -> None:
        if context.attempt == 1:
            context.defer(0.01)
        raise RetryableError("not for an hour")

    @app.task(concurrency=1)
    async def alone_at_work() -> None:
        await asyncio.sleep(3600.0)

    @app.task(breaker="mail")
    async def mail() -> None: ...

    app.workflow("three steps", [single, flaky, hinted])
    app.workflow("two steps", [single, fading])
