"""Retention of stored events: by age and type, and never while their work is unfinished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redrive.events.stream import Stream
from redrive.store.event_runs import ExpiredEvents
from redrive.store.store import Store

DAY_SECONDS = 86_400.0


class EventRetention:
    """Removes old events of the streams that this program declares, in all of their organizations.

    An event stays while a run of its projectors is unfinished or has a live dead letter, and while a rebuild
    of its stream is unfinished. A delivery after the removal is a new event.
    """

    def __init__(self, store: Store, streams: Mapping[str, Stream]) -> None:
        self._store = store
        self._streams = streams

    async def remove_expired(self, most: int) -> bool:
        """Remove a batch of old events of each stream. Return True if there may be more."""
        found = [
            await self._store.event_runs.remove_expired(expired, most)
            for stream in self._streams.values()
            for expired in _expired(stream)
        ]
        return most in found


def _expired(stream: Stream) -> Iterator[ExpiredEvents]:
    for org in sorted(stream.orgs):
        for name, days in stream.retention.items():
            if days is not None:
                yield ExpiredEvents(org, stream.name, days * DAY_SECONDS, [name], except_types=False)
        if stream.retention_days is not None:
            age = stream.retention_days * DAY_SECONDS
            yield ExpiredEvents(org, stream.name, age, list(stream.retention), except_types=True)
