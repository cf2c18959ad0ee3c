"""Faults of processes: killed at random moments, killed at named points, and frozen."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import ClassVar

from tests.crash.fault import Fault
from tests.crash.points import PLACES, every_point

FEW = 5


class Kill(Fault):
    """kill -9 at random moments."""

    pause = (0.1, 0.6)
    SHARES: ClassVar = {"worker": 15, "enqueuer": 2, "replayer": 3}

    async def strike(self) -> None:
        [role] = self.random.choices(list(self.SHARES), list(self.SHARES.values()))
        child = self.group.anyone(role)
        if child is not None:
            self.strikes += 1
            self.group.kill(child)

    def occurrences(self) -> dict[str, int]:
        return {"killed": self.strikes}


class AtPoint(Fault):
    """kill -9 at every named point."""

    def prepare(self) -> None:
        self._all = every_point(self.random)
        self.group.points.add(self._all)

    async def strike(self) -> None:
        """Add points when few are left, first those that no process has reached yet.

        A process that starts without a point would never die.
        """
        occurrences = self.occurrences()
        for role in PLACES:
            if self.group.points.count(role) < FEW:
                points = [each for each in every_point(self.random) if each.role == role]
                missing = [each for each in points if not occurrences[each.place]]
                self.group.points.add(missing or points)

    async def stop(self) -> None:
        self.group.points.clear()

    def occurrences(self) -> dict[str, int]:
        hits = Counter(note["point"].rpartition(":")[0] for note in self.site.sink.of("trap_hit"))
        return {each.place: hits[each.place] for each in self._all}


class Stop(Fault):
    """SIGSTOP past the lease, then SIGCONT."""

    pause = (0.2, 0.8)

    async def strike(self) -> None:
        child = self.group.anyone("worker")
        if child is None:
            return
        self.strikes += 1
        self.group.frozen.add(child.number)
        child.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(self.lease * self.random.uniform(1.2, 2.2))
        finally:
            child.send(signal.SIGCONT)
            self.group.frozen.discard(child.number)

    def occurrences(self) -> dict[str, int]:
        return {"frozen past the lease": self.strikes, "lease lost": self.site.sink.count("step.lease_lost")}
