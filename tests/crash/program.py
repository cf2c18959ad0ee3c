"""The program of a process: it works, starts runs, or replays them, on a database with traps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

from tests.crash.enqueuer import Enqueuer
from tests.crash.guard import without_fences
from tests.crash.replayer import Replayer
from tests.crash.seam import Seam
from tests.crash.sink import Line
from tests.crash.skew import WrongClock
from tests.crash.trap import Point, Trap
from tests.crash.work import define

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import StoreUnavailableError
from redrive.failures.redrive_processor import Processor
from redrive.model.event import (
    Event,
    LeaseLost,
    ReplayRequested,
    StoreFailed,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
    fields_of,
    name_of,
)
from redrive.parts import parts_of, rewire
from redrive.settings import Settings

_TOLD = (
    LeaseLost,
    ReplayRequested,
    StoreFailed,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)

REDRIVE_INTERVAL = 0.2
"""Seconds; less than the settings allow."""

Spec = dict[str, Any]


def main(spec: Spec) -> None:
    line = Line(spec["sink"], spec["child"])
    trap = Trap(line, Point.of(spec["point"]) if spec.get("point") else None)
    if spec.get("unguarded"):
        without_fences()
    app = _application(spec, trap, line)
    asyncio.run(_ROLES[spec["role"]](app, spec, line))


def _application(spec: Spec, trap: Trap, line: Line) -> Redrive:
    clock = WrongClock(spec["clock"]) if spec.get("clock") else SYSTEM_CLOCK
    settings = Settings(database_url=spec["url"], schema=spec["schema"])
    app = Redrive(settings=settings, log=False, clock=clock)
    rewire(app, Seam(parts_of(app).database, trap, line), clock, parts_of(app).random)
    define(app, line, trap)

    def on_event(event: Event) -> None:
        if isinstance(event, _TOLD):
            trap.draining = trap.draining or isinstance(event, WorkerStopping)
            line.tell(name_of(event), **fields_of(event))

    app.listen(on_event)
    return app


async def _work(app: Redrive, spec: Spec, line: Line) -> None:
    make = parts_of(app).processor

    def quick() -> Processor:
        processor = make()
        processor.options = replace(processor.options, interval_seconds=REDRIVE_INTERVAL)
        return processor

    parts_of(app).processor = quick  # type: ignore[method-assign]
    await app.work(**spec["options"])


async def _enqueue(app: Redrive, spec: Spec, line: Line) -> None:
    await _opened(app)
    random = Random(spec["seed"])
    await Enqueuer(app, line, random, spec["name"], spec["most_waiting"]).run(spec["again"])


async def _replay(app: Redrive, spec: Spec, line: Line) -> None:
    await _opened(app)
    await Replayer(app, line, Random(spec["seed"])).run()


async def _opened(app: Redrive) -> None:
    timeout = StoreRetrier(parts_of(app).clock, parts_of(app).random, parts_of(app).event_bus)
    await timeout.run("open", app.open, errors=StoreUnavailableError)


_ROLES = {"worker": _work, "enqueuer": _enqueue, "replayer": _replay}
