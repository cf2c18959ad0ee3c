"""For the tests of programs that use Redrive: time that passes only when something waits for it.

with virtual_time() as clock:
    charge()                 # retries without sleeping
assert clock.waits == [0.2, 0.4]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redrive.clock import SYSTEM_CLOCK

EPOCH = 1_700_000_000.0
"""Where a virtual clock starts, in seconds since 1970."""


class VirtualClock:
    """A clock that stands still unless somebody waits, or advances it.

    time       seconds that have passed
    waits      the waits so far, in seconds
    overshoot  how much longer than asked every wait takes, as on a busy machine
    """

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
        self.advance(seconds + self._overshoot)

    async def sleep(self, seconds: float) -> None:
        self.pause(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass that nobody waits for."""
        self.time += seconds


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Run all guarded calls of the process on a virtual clock, with breakers closed and budgets full.

    Only waits between attempts are virtual: a coroutine that really hangs is stopped after its real timeout.
    """
    from redrive.calls.dependency import DEPENDENCIES

    clock = VirtualClock()
    DEPENDENCIES.forget()
    SYSTEM_CLOCK.follow(clock)
    try:
        yield clock
    finally:
        SYSTEM_CLOCK.follow(None)
        DEPENDENCIES.forget()
