"""The clock: the only source of time. Tests and simulations replace it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes backwards."""

    def pause(self, seconds: float) -> None:
        """Block the current thread."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the current asyncio task."""


class SystemClock:
    """The clock of the machine. A test can replace it while it runs (see redrive.testing)."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    pause = staticmethod(time.sleep)

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep  # `import redrive` must not pay for asyncio

        await sleep(seconds)

    def follow(self, other: Clock | None) -> None:
        """Follow another clock; None: follow the machine's clock again."""
        # Set on the object, so that the normal case needs no extra call.
        self.__dict__.clear()
        if other is not None:
            names = ("now", "monotonic", "pause", "sleep")
            self.__dict__.update({name: getattr(other, name) for name in names})


SYSTEM_CLOCK = SystemClock()
