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
    """The clock of the machine; a test replaces it for its duration (see redrive.testing)."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    pause = staticmethod(time.sleep)

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep  # `import redrive` must not pay for asyncio

        await sleep(seconds)

    def follow(self, other: Clock | None) -> None:
        """Show the time of another clock; None: of the machine again."""
        # Set on the object, so that the ordinary case has no indirection.
        self.__dict__.clear()
        if other is not None:
            names = ("now", "monotonic", "pause", "sleep")
            self.__dict__.update({name: getattr(other, name) for name in names})


SYSTEM_CLOCK = SystemClock()
