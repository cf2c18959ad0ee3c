"""Faults at a set time: workers are killed, frozen and stopped; the database and dependencies go down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.script import Fault, FaultKind

from redrive.app import Redrive
from redrive.model.breaker import BreakerState

if TYPE_CHECKING:
    from tests.simulation.world import World

BETWEEN_SIGNALS = 0.2


class ScheduledFaults:
    """Executes the faults with a set time. All other faults wait at the seam for their statement."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stage = world.stage
        self._kinds = {
            FaultKind.CRASH: self._crash,
            FaultKind.FREEZE: self._freeze,
            FaultKind.STOP: self._stop,
            FaultKind.HURRY: self._hurry,
            FaultKind.OUTAGE: self._cut_off,
            FaultKind.DEPENDENCY: self._break_dependency,
            FaultKind.PAUSE_QUEUE: self._pause_queue,
            FaultKind.FORCE_OPEN: self._force,
            FaultKind.FORCE_CLOSED: self._force,
        }

    async def all(self) -> None:
        await asyncio.gather(*(self._at_its_time(fault) for fault in self._world.script.faults))

    async def _at_its_time(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        if fault.kind in self._kinds:
            await self._kinds[fault.kind](fault)
        else:
            self._stage.arm(fault)

    async def _crash(self, fault: Fault) -> None:
        process, _ = self._world.workers[fault.target]
        if process in self._world.working:
            self._stage.crash(process)

    async def _freeze(self, fault: Fault) -> None:
        process, _ = self._world.workers[fault.target]
        if process in self._world.working:
            self._stage.freeze(process, fault.seconds)

    async def _stop(self, fault: Fault) -> None:
        process, _ = self._world.workers[fault.target]
        if process in self._world.working and process not in self._stage.stopped_at:
            self._stage.occurrences["stop"] += 1
            self._world.signal(fault.target)

    async def _hurry(self, fault: Fault) -> None:
        await self._stop(fault)
        await asyncio.sleep(BETWEEN_SIGNALS)
        process, _ = self._world.workers[fault.target]
        if process in self._world.working and process in self._stage.stopped_at:
            self._world.signal(fault.target)

    async def _cut_off(self, fault: Fault) -> None:
        self._stage.down += 1
        await asyncio.sleep(fault.seconds)
        self._stage.down -= 1
        self._stage.up_since = self._world.loop.time()

    async def _break_dependency(self, fault: Fault) -> None:
        self._world.outside.down[fault.target] += 1
        await asyncio.sleep(fault.seconds)
        self._world.outside.down[fault.target] -= 1

    async def _pause_queue(self, fault: Fault) -> None:
        await self._operate(lambda app: app.queues().pause(fault.target))
        await asyncio.sleep(fault.seconds)
        await self._operate(lambda app: app.queues().resume(fault.target))

    async def _force(self, fault: Fault) -> None:
        state = BreakerState.OPEN if fault.kind is FaultKind.FORCE_OPEN else BreakerState.CLOSED
        await self._operate(
            lambda app: app.breakers().force(fault.target, state, reason="simulated", seconds=fault.seconds)
        )

    async def _operate(self, action: Callable[[Redrive], Any]) -> None:
        await self._world.operate(action)
