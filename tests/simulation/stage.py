"""The stage of one history: the state that all processes share, and the faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.simulation.generate import MAX_LEASE_SECONDS
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.script import Fault, FaultKind, Script
from tests.simulation.serial_database import SerialDatabase


class Stage:
    """The state that all processes of a history share.

    trace        the events: virtual time, process, text
    occurrences       how often each fault took effect
    down         the database is down for all processes
    up_since     when it came back
    releasing    the processes that are starting items of a bulk replay, and the replay
    interrupted  the bulk replays whose process crashed at that moment
    """

    def __init__(self, script: Script, loop: VirtualLoop) -> None:
        self.script = script
        self.loop = loop
        self.random = Random(f"stage {script.schedule}")
        self.serial_database = SerialDatabase(loop)
        self.trace: list[tuple[float, str, str]] = []
        self.occurrences: Counter[str] = Counter()
        self.down = 0
        self.up_since = 0.0
        self.armed: dict[str, list[Fault]] = {}
        self.listeners: dict[Callable[[str], None], Process] = {}
        self.stopped_at: dict[Process, float] = {}
        self.troubled_at: dict[Process, float] = {}
        self.releasing: dict[Process, str] = {}
        self.interrupted: set[str] = set()
        self.crashed: Callable[[Process], None] = lambda process: None

    def note(self, process: Process, what: str) -> None:
        self.trace.append((self.loop.time(), process.name, what))

    def count(self, what: str, process: Process) -> None:
        self.occurrences[what] += 1
        self.troubled_at[process] = self.loop.time()
        self.note(process, f"! {what}")

    def arm(self, fault: Fault) -> None:
        self.armed.setdefault(fault.target, []).append(fault)

    def disarm(self) -> None:
        self.armed.clear()

    def take(self, target: str, kinds: tuple[FaultKind, ...], statements: list[str]) -> Fault | None:
        """Return and use up the next fault for this statement."""
        armed = self.armed.get(target)
        if armed:
            for fault in armed:
                if fault.kind in kinds and (fault.statement is None or fault.statement in statements):
                    armed.remove(fault)
                    return fault
        return None

    def is_troubled(self, process: Process, since: float) -> bool:
        """Tell whether this process or the database has had a fault since then."""
        latest = max(self.troubled_at.get(process, 0.0), self.up_since)
        return bool(self.down) or latest >= since

    def crash(self, process: Process) -> None:
        self.count("crash", process)
        if process in self.releasing:
            self.interrupted.add(self.releasing.pop(process))
        self.loop.crash(process)
        self.serial_database.crashed(process)
        self.crashed(process)

    def freeze(self, process: Process, seconds: float) -> None:
        if process.frozen or not process.alive:
            return
        self.count("freeze", process)
        self.loop.freeze(process)
        self.serial_database.frozen(process)
        self.loop.call_later(seconds, self.thaw, process, context=self.loop.director.context)
        if seconds > MAX_LEASE_SECONDS:
            self.occurrences["frozen beyond its lease"] += 1

    def thaw(self, process: Process) -> None:
        if process.alive and process.frozen:
            self.troubled_at[process] = self.loop.time()
            if self.serial_database.has_inside(process):  # others could not use the database
                self.up_since = self.loop.time()
            self.note(process, "thawed")
            self.loop.thaw(process)
            self.serial_database.let_in()

    async def pass_time(self) -> None:
        """Take the time of a round trip to the database: mostly none, sometimes longer."""
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.random() * self.script.latency)
        else:
            await asyncio.sleep(0)
