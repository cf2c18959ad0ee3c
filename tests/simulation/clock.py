"""The clock of a process: virtual time, and a wall clock that may be wrong."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from redrive.testing import EPOCH


class ProcessClock:
    """The clock of one process. `skew` is how many seconds its wall clock is ahead of the database's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew: float = 0.0) -> None:
        self._time = loop.time
        self._start = EPOCH + skew

    def now(self) -> float:
        return self._start + self._time()

    def monotonic(self) -> float:
        return self._time()

    def pause(self, seconds: float) -> NoReturn:
        raise AssertionError(f"the engine was about to block its thread for {seconds} s")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
