"""Looking back: how much of an index each poll reads."""

from __future__ import annotations

from redrive.clock import Clock
from redrive.store.leases import FROM_THE_BEGINNING

INTERVAL_FACTOR = 10
"""The interval between reads from the start, as a multiple of their duration; they take about 10% of it."""
MAX_INTERVAL_SECONDS = 30.0


class LookBack:
    """Decides whether a poll reads its index from the start or from a floor.

    PostgreSQL keeps the index entries of deleted rows until a vacuum, or longer if a session holds a
    snapshot. A read from the start skips over all of them. While that is fast, every poll does it; once it is
    slow, most polls start at the floor reached before. Entries added below the floor wait for the next read
    from the start.
    """

    def __init__(self, clock: Clock, min_interval: float = 0.0) -> None:
        self._clock = clock
        self._min_interval = min_interval
        self._floor = FROM_THE_BEGINNING
        self._due_at = 0.0

    def floor(self) -> float:
        """Where the next read starts."""
        return FROM_THE_BEGINNING if self._clock.monotonic() >= self._due_at else self._floor

    def looked(self, floor: float, since: float, reached: float) -> None:
        """Note a read that started from `floor` at the time `since` and left no entries before `reached`."""
        now = self._clock.monotonic()
        if floor == FROM_THE_BEGINNING:
            interval = max(self._min_interval, INTERVAL_FACTOR * (now - since))
            self._due_at = now + min(interval, MAX_INTERVAL_SECONDS)
        self._floor = reached
