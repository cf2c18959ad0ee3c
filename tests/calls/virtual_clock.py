"""A clock that stands still unless somebody waits: a year of retries passes in no time."""

from __future__ import annotations

EPOCH = 1_700_000_000.0


class VirtualClock:
    """`overshoot`: how much longer than asked every wait takes, as on a busy machine."""

    def __init__(self, overshoot: float = 0.0) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self._overshoot = overshoot

    def now(self) -> float:
        return EPOCH + self.time

    def monotonic(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds + self._overshoot

    async def sleep(self, seconds: float) -> None:
        self.pause(seconds)
