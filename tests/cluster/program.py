"""The program of a process in the cluster: it works, or starts runs and reports the acknowledged ones."""

from __future__ import annotations

import asyncio
import json
import sys
from random import Random
from typing import Any

from tests.crash.backlog import backlog
from tests.crash.sink import Line

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.errors import StoreError
from redrive.model.event import Event, LeaseLost, StoreFailed, StoreRecovered, fields_of, name_of
from redrive.parts import parts_of
from redrive.policy import Backoff, Exponential, RetryPolicy

WORK = {"charge": 8, "flaky": 2, "doomed": 1}
MOST_WAITING = 150
SOON = RetryPolicy(max_attempts=4, backoff=Backoff(Exponential(0.1), cap=1.0))

Spec = dict[str, Any]


def define(app: Redrive, line: Line) -> None:
    async def act(seconds: float, context: Context) -> None:
        await asyncio.sleep(seconds)
        line.tell("effect", key=context.idempotency_key, replay=0)

    @app.task
    async def charge(seconds: float, context: Context) -> None:
        await act(seconds, context)

    @app.task(retry=SOON)
    async def flaky(seconds: float, context: Context) -> None:
        if not context.failures:
            raise ConnectionError("not yet")
        await act(seconds, context)

    @app.task(retry=RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(0.1), cap=1.0)))
    async def doomed(seconds: float) -> None:
        await asyncio.sleep(seconds)
        raise ConnectionError("never")


async def enqueue(app: Redrive, spec: Spec, line: Line) -> None:
    random, number = Random(spec["name"]), 0
    while True:
        try:
            if number % 20 == 0 and await backlog(parts_of(app).database) > MOST_WAITING:
                await asyncio.sleep(0.5)
                continue
        except StoreError:
            continue
        [task] = random.choices(list(WORK), list(WORK.values()))
        await _start(app, line, task, random.uniform(0.05, 0.15), f"{spec['name']}-{number}")
        number += 1
        await asyncio.sleep(0.03)


async def _start(app: Redrive, line: Line, task: str, seconds: float, name: str) -> None:
    """Start a run until it is acknowledged; repeat an unanswered start with the same key."""
    while True:
        try:
            run = await app.start(task, seconds, key=name)
        except StoreError:
            line.tell("refused start", name=name)
            await asyncio.sleep(0.1)
        else:
            line.tell("acknowledged", names=[name], ids=[run.id])
            return


async def work(app: Redrive, spec: Spec, line: Line) -> None:
    await app.work(concurrency=3, lease_seconds=spec["lease"], grace_seconds=10.0, poll_seconds=0.5)


def main(spec: Spec) -> None:
    line = Line(spec["sink"], spec["child"])
    app = Redrive(spec["url"], pooler=spec["pooler"], log=False)
    define(app, line)

    def on_event(event: Event) -> None:
        if isinstance(event, StoreFailed | StoreRecovered | LeaseLost):
            line.tell(name_of(event), **fields_of(event))

    app.listen(on_event)
    line.tell("started")
    asyncio.run({"worker": work, "enqueuer": enqueue}[spec["role"]](app, spec, line))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
