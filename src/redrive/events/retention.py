"""Removing old events of a stream, by age and type."""

from __future__ import annotations

from redrive.clock import Clock
from redrive.events.stream import Stream
from redrive.store.events import RemovableEvent
from redrive.store.store import Store

INTERVAL_SECONDS = 60.0
BATCH = 500
MAX_BATCHES = 10


class EventRetention:
    """Removes events that are older than their stream keeps them, and that no unfinished run needs."""

    def __init__(self, stream: Stream, store: Store, clock: Clock) -> None:
        self._stream = stream
        self._store = store
        self._clock = clock
        self._places: dict[str, RemovableEvent | None] = {}
        self._next = 0.0

    async def remove_when_due(self) -> int:
        """Remove events once per minute. Return their number."""
        if not self._stream.retention or self._clock.monotonic() < self._next:
            return 0
        self._next = self._clock.monotonic() + INTERVAL_SECONDS
        return sum([await self.remove(org) for org in sorted(self._stream.orgs)])

    async def remove(self, org: str) -> int:
        """Remove events of an organization, a limited number at a time; the next call goes on after them."""
        removed, age = 0, min(self._stream.retention.values())
        for _ in range(MAX_BATCHES):
            found = await self._store.events.removable(
                org, self._stream.name, age, self._places.get(org), BATCH
            )
            old = [event.id for event in found if self._is_expired(event)]
            removed += await self._store.events.remove(org, old)
            self._places[org] = found[-1] if len(found) == BATCH else None
            if len(found) < BATCH:
                break
        return removed

    def _is_expired(self, event: RemovableEvent) -> bool:
        seconds = self._stream.retention_of(event.type)
        return seconds is not None and event.stored_at < self._clock.now() - seconds
