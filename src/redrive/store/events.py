"""Events of streams: stored once per dedupe key, with the runs that project them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from redrive.errors import NotFoundError
from redrive.model.stream import Projection, ProjectionRecord, ProjectionRow, StoredEvent
from redrive.policy.codec import encode
from redrive.store.database import Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements


class WaitingProjection(NamedTuple):
    """A projection whose run is not stored yet, with its event."""

    projector: str
    version: int
    event: StoredEvent


_SQL = statements("events", StoredEvent, Projection)


class EventStore:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, events: Sequence[StoredEvent]) -> set[str]:
        """Store events in the caller's transaction. Return the ids of those whose dedupe key is new."""
        # Sorted by key, so that concurrent batches cannot deadlock.
        ordered = sorted(
            events, key=lambda event: (event.org, event.stream, event.dedupe_key, event.position)
        )
        return {row[0] for row in await session.fetch_many(_SQL["insert"], ordered)}

    async def project(self, session: Session, projections: Sequence[Projection]) -> None:
        await session.fetch_many(_SQL["project"], projections)

    async def waiting(
        self, session: Session, orgs: Collection[str], stream: str, before: tuple[int, str], most: int
    ) -> list[WaitingProjection]:
        """Return waiting projections of events before a generation and position, in stream order."""
        generation, position = before
        parameters = {"orgs": encode(sorted(orgs)), "stream": stream, "most": most}
        parameters |= {"generation": generation, "position": position}
        rows = await session.fetch(_SQL["waiting"], parameters)
        events = read_rows(StoredEvent, [row[2:] for row in rows])
        return [WaitingProjection(row[0], row[1], event) for row, event in zip(rows, events, strict=True)]

    async def count_waiting(self, orgs: Collection[str], stream: str) -> int:
        parameters = {"orgs": encode(sorted(orgs)), "stream": stream}
        [row] = await self._session.fetch(_SQL["count_waiting"], parameters)
        return int(row[0])

    async def release(self, session: Session, projections: Sequence[Projection]) -> None:
        """Note that the runs of waiting projections are stored now."""
        await session.fetch_many(_SQL["release"], projections)

    async def get(self, event_id: str, org: str) -> StoredEvent:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(event_id), "org": org})
        if not rows:
            raise NotFoundError(f"found no event {event_id!r:.200}")
        return read_row(StoredEvent, rows[0])

    async def id_of_key(self, session: Session, org: str, stream: str, dedupe_key: str) -> str:
        """Return the id of the event that is stored under a dedupe key."""
        parameters = {"org": org, "stream": stream, "dedupe_key": dedupe_key}
        [[event_id]] = await session.fetch(_SQL["of_key"], parameters)
        return str(event_id)

    async def page(self, org: str, stream: str, after: StoredEvent | None, most: int) -> list[StoredEvent]:
        """Return events of a stream in its order, the first ones or those after an event."""
        start = (-1, "0" * 32, "0" * 32) if after is None else (after.generation, after.position, after.id)
        place = dict(zip(("generation", "position", "id"), start, strict=True))
        rows = await self._session.fetch(_SQL["page"], {"org": org, "stream": stream, "most": most, **place})
        return read_rows(StoredEvent, rows)

    async def newest(self, org: str, before: StoredEvent | None, most: int) -> list[StoredEvent]:
        """Return the newest events of an organization, or those before an event."""
        stored_at, event_id = (1e300, "f" * 32) if before is None else (before.stored_at, before.id)
        parameters = {"org": org, "stored_at": stored_at, "id": event_id, "most": most}
        return read_rows(StoredEvent, await self._session.fetch(_SQL["newest"], parameters))

    async def records(self, event_id: str, org: str) -> list[ProjectionRecord]:
        """Return how the projectors of an event have fared."""
        rows = await self._session.fetch(_SQL["records"], {"event_id": findable(event_id), "org": org})
        return [row.record() for row in read_rows(ProjectionRow, rows)]

    async def queued(
        self, orgs: Collection[str], queues: Collection[str], workflows: Collection[str], most: int
    ) -> int:
        """Count the runs of these workflows that are queued or wait for a retry, up to `most` of each."""
        names = {"orgs": orgs, "queues": queues, "workflows": workflows}
        parameters = {"most": most, **{name: encode(sorted(values)) for name, values in names.items()}}
        counts = [
            await self._session.fetch(_SQL[name], parameters) for name in ("unfinished", "unfinished_waiting")
        ]
        return sum(int(row[0]) for rows in counts for row in rows)
