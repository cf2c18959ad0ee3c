"""The grace after an outage, in which workers write the results they hold before leases are taken over."""

from __future__ import annotations

from redrive.clock import Clock
from redrive.engine.store_retrier import StoreRetrier

GRACE_SECONDS = 10.0
"""How long a worker must have had the database again before it takes over leases: the others may need as long
to connect, for example after a failover."""
MAX_COUNTED_SECONDS = 2.0
"""How much of the time between two passes counts if an operation failed in the meantime. It is more than
nothing, so that the grace also ends while the database often fails."""


class TakeoverGrace:
    """Starts when this worker reaches the database after an outage, and counts the time in which it does."""

    def __init__(self, clock: Clock, retrier: StoreRetrier) -> None:
        self._clock = clock
        self._retrier = retrier
        self._reached_at = clock.monotonic()
        self._available = 0.0
        self._ends_at: float | None = None

    def seconds_left(self) -> float:
        """How long to wait before leases may be taken over."""
        has_failed = self._has_failed()
        if self._ends_at is None:
            return GRACE_SECONDS if has_failed else 0.0
        since = 0.0 if has_failed else self._clock.monotonic() - self._reached_at
        return max(0.0, self._ends_at - self._available - since)

    def reached(self, *, took_over: bool) -> None:
        """Note that a pass reached the database, and whether it took over leases."""
        now = self._clock.monotonic()
        passed = now - self._reached_at
        self._available += min(passed, MAX_COUNTED_SECONDS) if self._has_failed() else passed
        if took_over:
            self._ends_at = None
        elif self._ends_at is None:
            self._ends_at = self._available + GRACE_SECONDS
        self._reached_at = now

    def _has_failed(self) -> bool:
        """Whether any operation of this process has failed to reach the database since the last pass."""
        return self._retrier.unavailable_at > self._reached_at
