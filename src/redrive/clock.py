"""The clock: the only source of time. Tests and simulations bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some point, never going back."""

    def pause(self, seconds: float) -> None:
        """Block the thread."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the task."""


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    pause = staticmethod(time.sleep)

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep  # `import redrive` must not pay for asyncio

        await sleep(seconds)


SYSTEM_CLOCK = SystemClock()
