"""The processes of a campaign: workers, enqueuers and replayers; each is replaced when it dies."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

from tests.crash.enqueuer import unanswered
from tests.crash.points import Points
from tests.crash.process_starter import KILLED, Child
from tests.crash.site import SCHEMA, Site
from tests.crash.skew import set_error
from tests.crash.trap import DRAIN, Point

CONCURRENCY = 8
MAX_WAITING = 150
RUNNING_BEFORE_STOP = 0.4
MAX_WAIT_FOR_POINT_LENGTH = 6.0
MAX_DIED = 50


class ProcessGroup:
    """The processes of a campaign.

    points  each new process gets one; a point that was not reached returns, and is then easier to reach
    errors  the errors of the workers' clocks, assigned in turn
    killed  when each child was killed, by the test or by its own trap
    """

    def __init__(self, site: Site, random: Random, *, lease: float, unguarded: bool = False) -> None:
        self._site = site
        self._random = random
        self._options = {
            "concurrency": CONCURRENCY,
            "lease_seconds": lease,
            "poll_seconds": 0.1,
            "grace_seconds": 5.0,
        }
        self._unguarded = unguarded
        self._places: list[asyncio.Task[None]] = []
        self._alive: dict[int, Child] = {}
        self.points = Points()
        self.errors: list[float] = [0.0]
        self.killed: dict[int, float] = {}
        self.frozen: set[int] = set()
        self.died_by_itself: list[str] = []

    # The processes

    @property
    def processes(self) -> list[int]:
        return [child.process for child in self._alive.values() if child.process is not None]

    def _of(self, role: str) -> list[Child]:
        return [child for child in self._alive.values() if child.spec["role"] == role]

    def anyone(self, role: str) -> Child | None:
        """Return a random process of this role that has started and is not frozen."""
        ready = [
            child
            for child in self._of(role)
            if child.number not in self.frozen and (role != "worker" or self._told(child, "worker.started"))
        ]
        return self._random.choice(ready) if ready else None

    # Starting and stopping

    def employ(self, *, workers: int, enqueuers: int = 0, replayers: int = 0) -> None:
        for number in range(workers):
            self._places.append(asyncio.create_task(self._work(number)))
        for number in range(enqueuers):
            self._places.append(asyncio.create_task(self._enqueue(number)))
        for _ in range(replayers):
            self._places.append(asyncio.create_task(self._replay()))

    async def dismiss(self) -> None:
        """Kill all processes, and start no others."""
        await self._end(self.kill)

    async def retire(self) -> list[int | None]:
        """Stop all processes, start no others, and return their exit codes."""
        return await self._end(lambda child: child.send(signal.SIGTERM))

    def kill(self, child: Child) -> None:
        self.killed[child.number] = time.time()
        child.send(signal.SIGKILL)

    async def _end(self, end: Callable[[Child], None]) -> list[int | None]:
        for place in self._places:
            place.cancel()
        await asyncio.gather(*self._places, return_exceptions=True)
        self._places = []
        children = list(self._alive.values())
        for child in children:
            end(child)
        await asyncio.gather(*(child.ended.wait() for child in children))
        for child in children:
            self._bury(child)
        return [child.exit_code for child in children]

    # One place

    async def _work(self, place: int) -> None:
        known = {"options": self._options, "unguarded": self._unguarded, "clock": self._clock(place)}
        while True:
            point = self.points.take("worker") if place else None  # at least one worker must make progress
            await self._accompany(self._start("worker", point, **known), point)

    async def _enqueue(self, place: int) -> None:
        known = {"most_waiting": MAX_WAITING, "clock": self._clock(0)}
        for generation in count():
            point = self.points.take("enqueuer")
            own = {"name": f"{place}-{generation}", "seed": self._random.random()}
            again = unanswered(self._site.sink, place)
            child = self._start("enqueuer", point, again=again, **own, **known)
            await self._accompany(child, point)

    async def _replay(self) -> None:
        while True:
            point = self.points.take("replayer")
            known = {"seed": self._random.random(), "clock": self._clock(0)}
            await self._accompany(self._start("replayer", point, **known), point)

    def _start(self, role: str, point: Point | None, **more: Any) -> Child:
        site = self._site
        known = {"role": role, "url": site.worker_url, "schema": SCHEMA, "sink": site.sink.path}
        child = site.starter.start({**known, "point": str(point) if point else None, **more})
        self._alive[child.number] = child
        return child

    async def _accompany(self, child: Child, point: Point | None) -> None:
        """Wait until the process is dead."""
        if point is not None:
            await self._lead_to(point, child)
        await child.ended.wait()
        self._bury(child)
        if len(self.died_by_itself) >= MAX_DIED:
            raise RuntimeError("the programs of the crew cannot run: nobody takes this place any more")
        if point is not None and not self._told(child, "trap_hit"):
            self.points.add([point._replace(number=1)])

    async def _lead_to(self, point: Point, child: Child) -> None:
        if point.name == DRAIN:
            while child.exit_code is None and not self._told(child, "worker.started"):
                await asyncio.sleep(0.02)
            await asyncio.sleep(RUNNING_BEFORE_STOP)
            child.send(signal.SIGTERM)
        with suppress(TimeoutError):  # wait_for would swallow a cancellation that arrives with the end
            async with asyncio.timeout(MAX_WAIT_FOR_POINT_LENGTH):
                await child.ended.wait()
        if child.exit_code is None:
            self.kill(child)

    def _bury(self, child: Child) -> None:
        self._alive.pop(child.number, None)
        self.frozen.discard(child.number)
        if child.exit_code == KILLED:
            self.killed.setdefault(child.number, time.time())
        elif child.exit_code != 0:
            self.died_by_itself.append(f"{child.spec} ended with {child.exit_code}")

    def _told(self, child: Child, what: str) -> bool:
        return any(note.child == child.number for note in self._site.sink.of(what))

    def _clock(self, number: int) -> str | None:
        if self.errors == [0.0]:
            return None
        index = number % len(self.errors)
        path = self._site.folder / f"clock-{index}"
        if not path.exists():
            set_error(path, self.errors[index])
        return str(path)
