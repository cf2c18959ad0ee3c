"""Building the scene: hour by hour, work arrives, is executed, fails, and people see to it."""

from __future__ import annotations

from importlib import import_module
from math import cos, pi
from pathlib import Path
from random import Random
from typing import Any

from tests.browser.scene import streams
from tests.browser.scene.incidents import troubles_at
from tests.browser.scene.machines import DEPLOYMENTS, Machines
from tests.browser.scene.payloads import GOODS, Good
from tests.browser.scene.people import JON, NothingToDoError, People
from tests.browser.scene.time import HOUR, SceneClock

from redrive import BreakerPolicy
from redrive.engine.handle import RunHandle
from redrive.model.breaker import BreakerState
from redrive.parts import parts_of, rewire
from redrive.store.sqlite import SqliteDatabase

RUNS_AN_HOUR = 80.0
RECENT = 6.0
LAST = 0.1
"""Hours that are left for what must be so at the end."""
PASSES = 4
"""Looks at what has become due between two arrivals."""

_BREAKERS = {
    "stripe": BreakerPolicy(window_calls=10, minimum_calls=6, cool_down=900.0, longest_open=3600.0),
    "mailer": BreakerPolicy(),
    "warehouse": BreakerPolicy(),
}
_TAGS = ("vip", "eu", "b2b", "campaign")


class Building:
    def __init__(self, path: Path, scale: float, seed: int = 1) -> None:
        from tests.browser.world import app

        self.app = app
        self.clock = SceneClock()
        self._scale = scale
        self._random = Random(seed)
        self._numbers = {good.work: 0 for good in GOODS}
        self._troubles = import_module("acme.trouble")
        self._troubles.TROUBLES.random = Random(seed)
        vars(import_module("acme.pace"))["take"] = self.clock.take
        for name, policy in _BREAKERS.items():
            app.breaker(name, policy)
        rewire(app, SqliteDatabase(str(path), clock=self.clock, durable=False), self.clock, Random(seed))
        self._machines = Machines(app)
        self._deeds = People(app).deeds
        self._deployments = dict(DEPLOYMENTS)
        self.missed: list[str] = []

    async def build(self) -> None:
        await self.app.open()
        fallen = False
        while self.clock.hours_left > LAST:
            await self._happen()
            await self._arrive(self._step())
            if self.clock.hours_left < 0.7 and not fallen:
                fallen = True
                await self._machines.fall()
        await self._end()
        await self.app.close()

    async def _happen(self) -> None:
        """What is due by now: deployments, the weather, what people do."""
        left = self.clock.hours_left
        for hours in [each for each in self._deployments if each >= left]:
            await self._machines.deploy(self._deployments.pop(hours))
        trouble = self._troubles.Trouble
        known = {name: [trouble(**each) for each in several] for name, several in troubles_at(left).items()}
        self._troubles.TROUBLES.known = known
        while self._deeds and self._deeds[0][0] >= left:
            _, deed = self._deeds.pop(0)
            try:
                await deed()
            except NothingToDoError as missing:
                self.missed.append(str(missing))

    async def _arrive(self, step: float) -> None:
        """Some work, and what becomes due in so many seconds."""
        for good in self._random.choices(GOODS, [good.weight for good in GOODS], k=self._number(step)):
            await self._start(good)
        end = self.clock.time + step
        await self._machines.work_off()
        for _ in range(PASSES):
            wait = (await parts_of(self.app).store.leases.next_due()).seconds
            if wait is None or self.clock.time + wait > end:
                break
            self.clock.advance(max(1.0, wait))
            await self._machines.work_off()
        self.clock.time = max(self.clock.time, end)

    def _step(self) -> float:
        """Seconds until the next arrivals: the last hours are told in more detail."""
        usual = 720.0 if self.clock.hours_left > RECENT else 180.0
        return min(usual / max(self._scale, 0.2), max(30.0, (self.clock.hours_left - LAST) * HOUR))

    def _number(self, seconds: float) -> int:
        """How much arrives: less at night, and the end is in the afternoon of a good day."""
        left = self.clock.hours_left
        busy = 1.0 + 0.75 * cos((left - 2.0) / 24.0 * 2.0 * pi) + (1.0 if left < RECENT else 0.0)
        wanted = RUNS_AN_HOUR * self._scale * busy * seconds / HOUR
        return max(0, round(self._random.gauss(wanted, wanted**0.5)))

    async def _start(self, good: Good, delay: float = 0.0) -> RunHandle[Any]:
        self._numbers[good.work] += 1
        number = self._numbers[good.work]
        payload = good.make(self._random, number)
        identity = next(iter(payload.values()))
        tags = self._random.sample(_TAGS, 1) if self._random.random() < 0.2 else []
        priority = 10 if "vip" in tags else 0
        key = f"{good.work}/{identity}"
        return await self.app.start(good.work, payload, key=key, tags=tags, priority=priority, delay=delay)

    async def _end(self) -> None:
        """The last moment: work that is scheduled, that waits, and that is being executed."""
        await self._keep_stripe_open()
        await streams.record(self.app, self._random, 1, 40)
        for _ in range(PASSES):
            await self._machines.work_off()
        while self.clock.hours_left > 0.0:
            await self._arrive(60.0)
        self.clock.end()
        for good in GOODS[:5]:
            await self._start(good, delay=self._random.uniform(600, 7200))
        for good in GOODS[:2]:
            run = await self._start(good, delay=HOUR)
            await run.cancel(by=JON, reason="The customer has cancelled the order")
        for number in range(round(20 * max(self._scale, 0.4))):
            await self._start(GOODS[number % 5])
        await streams.record(self.app, self._random, 41, 3)
        await streams.report(self.app, self.clock.now())
        await self._machines.hold("webhooks", 3)
        await self._machines.hold("orders", 4)
        await self._machines.hold("reports", 1)
        await parts_of(self.app).store.limits.forget_workers(24 * HOUR)
        for machine in self._machines.alive:
            await self._machines.beat(machine, in_flight=8 if machine is self._machines.alive[-1] else 0)

    async def _keep_stripe_open(self) -> None:
        """It was asked not long ago, and is asked again in a while."""
        for _ in range(100):
            known = await parts_of(self.app).breakers.look("stripe")
            assert known is not None
            until = known.snapshot.open_until
            if known.state is BreakerState.OPEN and until is not None and until > self.clock.now() + 600.0:
                return
            await self._start(GOODS[0])
            self.clock.advance(10.0)
            await self._machines.work_off()
        raise AssertionError("the breaker of stripe is not open at the end of the scene")
