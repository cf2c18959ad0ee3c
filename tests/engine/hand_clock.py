"""A clock that a test moves: sleepers sleep until the test lets the time pass."""

from __future__ import annotations

import asyncio

from redrive.testing import EPOCH


class HandClock:
    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: dict[asyncio.Future[None], float] = {}
        self._asleep = asyncio.Event()

    def now(self) -> float:
        return EPOCH + self.time

    def monotonic(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        raise AssertionError(f"somebody was about to block the thread for {seconds} s")

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[future] = self.time + seconds
        self._asleep.set()
        try:
            await future
        finally:
            del self._sleepers[future]

    @property
    def sleeping(self) -> int:
        return len(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Wait until a sleeper would wake up by then, and let the time pass."""
        while not (due := self._due(seconds)):
            self._asleep.clear()
            await self._asleep.wait()
        self.time += seconds
        for future in due:
            future.set_result(None)

    def _due(self, seconds: float) -> list[asyncio.Future[None]]:
        end = self.time + seconds
        return [each for each, until in self._sleepers.items() if until <= end and not each.done()]
