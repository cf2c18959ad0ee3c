"""The throttle: passes a few events per second of each cause, with the number of suppressed ones."""

from __future__ import annotations

import math
from threading import Lock
from typing import NamedTuple

from redrive.clock import Clock

WINDOW = 1.0
MAX_CAUSES = 10_000


class _Passed(NamedTuple):
    since: float
    passed: int
    suppressed: int


class Throttle:
    """Passes a limited number of events per second of each cause."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: dict[object, _Passed] = {}

    def pass_(self, cause: object, most: int) -> int | None:
        """Return how many events were suppressed since the last one; None suppresses this one too."""
        now = self._clock.monotonic()
        with self._lock:
            since, passed, suppressed = self._known.get(cause, _NEVER)
            # A clock that a test replaced may go back.
            if not 0.0 <= now - since < WINDOW:
                self._remember(cause, _Passed(now, 1, 0))
                return suppressed
            if passed < most:
                self._known[cause] = _Passed(since, passed + 1, 0)
                return suppressed
            self._known[cause] = _Passed(since, passed, suppressed + 1)
            return None

    def _remember(self, cause: object, passed: _Passed) -> None:
        """Store it as the newest cause, and drop the oldest: there may be as many causes as users."""
        self._known.pop(cause, None)
        if len(self._known) >= MAX_CAUSES:
            del self._known[next(iter(self._known))]
        self._known[cause] = passed


_NEVER = _Passed(-math.inf, 0, 0)
