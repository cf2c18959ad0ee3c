"""The throttle: what happens very often is told a few times a second, with the number that was left out."""

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
    """Lets so many a second pass of each cause."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: dict[object, _Passed] = {}

    def pass_(self, cause: object, most: int) -> int | None:
        """How many were kept back since the last one that passed; None: this one is kept back too."""
        now = self._clock.monotonic()
        with self._lock:
            since, passed, suppressed = self._known.get(cause, _NEVER)
            # A clock that a test has exchanged may have gone back.
            if not 0.0 <= now - since < WINDOW:
                self._remember(cause, _Passed(now, 1, 0))
                return suppressed
            if passed < most:
                self._known[cause] = _Passed(since, passed + 1, 0)
                return suppressed
            self._known[cause] = _Passed(since, passed, suppressed + 1)
            return None

    def _remember(self, cause: object, passed: _Passed) -> None:
        """As the newest; the oldest makes room, because causes may be as many as keys of users."""
        self._known.pop(cause, None)
        if len(self._known) >= MAX_CAUSES:
            del self._known[next(iter(self._known))]
        self._known[cause] = passed


_NEVER = _Passed(-math.inf, 0, 0)
