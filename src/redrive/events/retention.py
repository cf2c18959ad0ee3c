"""Retention of stored events: by age and type, and never while their work is unfinished."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.events.stream import Stream
from redrive.store.event_runs import ExpiredEvents
from redrive.store.store import Store


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
        found = []
        for stream in self._streams.values():
            for org in sorted(stream.orgs) if stream.retention else ():
                found += [
                    await self._store.event_runs.remove_expired(expired, most)
                    for expired in await self._expired(stream, org)
                ]
        return most in found

    async def _expired(self, stream: Stream, org: str) -> list[ExpiredEvents]:
        """Group the types of the events by how long the stream keeps them."""
        types: dict[float, list[str]] = {}
        for name in await self._store.event_runs.types(org):
            age = stream.retention_of(name)
            if age is not None:
                types.setdefault(age, []).append(name)
        return [ExpiredEvents(org, stream.name, age, names) for age, names in types.items()]
