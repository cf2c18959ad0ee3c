"""The scene's time: it begins days ago, passes as fast as the machine can, and ends now."""

from __future__ import annotations

import asyncio
import time

from redrive.testing import VirtualClock

HOUR = 3600.0
HOURS = 72.0
SPEED = 0.001
"""Of what is executed at once, the shorter must end first: so much of its time is really waited."""


class SceneClock(VirtualClock):
    def __init__(self) -> None:
        super().__init__()
        self.begins = time.time() - HOURS * HOUR

    def now(self) -> float:
        return self.begins + self.time

    @property
    def hours_left(self) -> float:
        return HOURS - self.time / HOUR

    async def take(self, seconds: float) -> None:
        """For what a task does: the time of others that are executed beside it is the same time."""
        end = self.time + seconds
        await asyncio.sleep(seconds * SPEED)
        self.time = max(self.time, end)

    def end(self) -> None:
        """Building has taken a while; it is now now."""
        self.time = max(self.time, time.time() - self.begins)
