"""The throttle: passes a limited number of events per second for each cause and counts the rest."""

from __future__ import annotations

import math
from threading import Lock
from typing import NamedTuple

from redrive.clock import Clock

WINDOW_SECONDS = 1.0
MAX_CAUSES = 10_000


class _Passed(NamedTuple):
    since: float
    passed: int
    suppressed: int


class Throttle:
    """Passes a limited number of events per second for each cause."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: dict[object, _Passed] = {}

    def pass_(self, cause: object, limit: int) -> int | None:
        """Return how many events were suppressed since the last one, or None to suppress this one too."""
        now = self._clock.monotonic()
        with self._lock:
            since, passed, suppressed = self._known.get(cause, _NEVER)
            # The clock may go backwards if a test replaces it.
            if not 0.0 <= now - since < WINDOW_SECONDS:
                self._remember(cause, _Passed(now, 1, 0))
                return suppressed
            if passed < limit:
                self._known[cause] = _Passed(since, passed + 1, 0)
                return suppressed
            self._known[cause] = _Passed(since, passed, suppressed + 1)
            return None

    def _remember(self, cause: object, passed: _Passed) -> None:
        """Store the newest cause and drop the oldest if there are too many: a cause can be a user."""
        self._known.pop(cause, None)
        if len(self._known) >= MAX_CAUSES:
            del self._known[next(iter(self._known))]
        self._known[cause] = passed


_NEVER = _Passed(-math.inf, 0, 0)
