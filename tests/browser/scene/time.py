"""The scene's time: it starts days ago, passes as fast as the machine can, and ends now."""

from __future__ import annotations

import asyncio
import time

from redrive.testing import VirtualClock

HOUR = 3600.0
HOURS = 72.0
SPEED = 0.001
"""Of concurrent tasks, the shorter must end first, so this share of the time is really waited."""


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
        """Let a task take time. Concurrent tasks share the same time."""
        end = self.time + seconds
        await asyncio.sleep(seconds * SPEED)
        self.time = max(self.time, end)

    def end(self) -> None:
        """Move the time forward by the duration of the building, to the present."""
        self.time = max(self.time, time.time() - self.begins)
