"""The events of an organization: record them, view them, and see how their projectors have fared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from redrive.errors import InvalidValueError, NotFoundError, StoreUnavailableError
from redrive.events.queries import EventQueries
from redrive.events.rebuilds import Rebuilds
from redrive.events.recorder import PreparedEvent, Written, event_of_row
from redrive.events.replays import EventReplays
from redrive.events.service_parts import EventParts
from redrive.events.stream import Stream
from redrive.model.stream import Event, ProjectionRecord, StoredEvent
from redrive.policy.bounds import require_kind, require_list, require_whole
from redrive.policy.codec import decode_stored
from redrive.words.suggestion import suggest

MAX_TRIES = 4
MAX_PAGE = 500


class RecordedEvent(NamedTuple):
    """The id of a stored event. `is_new` is False if an event with its dedupe key existed already."""

    id: str
    is_new: bool


class EventView(NamedTuple):
    """A stored event for display: its payload is redacted."""

    event: Event
    projections: Sequence[ProjectionRecord]


class Events(EventQueries):
    """The events of the caller's organization.

    replays   executes projectors for stored events again
    rebuilds  executes one projector for all stored events of a stream again
    """

    def __init__(self, parts: EventParts) -> None:
        super().__init__(parts.store, parts.caller, parts.redactor)
        self._parts = parts
        self.replays = EventReplays(parts)
        self.rebuilds = Rebuilds(parts)

    async def record(self, stream: Stream | str, events: Sequence[Event]) -> list[RecordedEvent]:
        """Store events as if they had arrived on a stream, with a run for each projector that wants them.

        All of them, or none. An event whose dedupe key is known is stored once; it starts no run again.
        """
        parts, declared = self._parts, self._stream(stream)
        require_list("events", events, "events")
        prepared = [self._prepared(declared, event) for event in events]
        await parts.recorder.define(prepared)
        written, ids = await parts.retrier.run(
            "record events", lambda: self._write(prepared), errors=StoreUnavailableError, tries=MAX_TRIES
        )
        await parts.recorder.announce(written)
        stored = [(ids[event.row.dedupe_key], event.row.id) for event in prepared]
        return [RecordedEvent(event_id, event_id == own_id) for event_id, own_id in stored]

    async def get(self, event_id: str) -> EventView:
        """Return a stored event with its projections, redacted."""
        parts, org = self._parts, self._parts.caller.org
        row = await parts.store.events.get(event_id, org)
        return EventView(self._redacted(row), await parts.store.events.records(event_id, org))

    async def projections(self, event_id: str) -> list[ProjectionRecord]:
        """Return how the projectors of an event have fared."""
        parts, org = self._parts, self._parts.caller.org
        await parts.store.events.get(event_id, org)
        return await parts.store.events.records(event_id, org)

    async def list(self, *, limit: int = 100, before: str | None = None) -> list[Event]:
        """Return the newest events of the organization, or those before an event, redacted."""
        require_whole("limit", limit, 1, MAX_PAGE)
        parts, org = self._parts, self._parts.caller.org
        last = None if before is None else await parts.store.events.get(before, org)
        return [self._redacted(row) for row in await parts.store.events.newest(org, last, limit)]

    async def exist(self) -> bool:
        """Return whether the organization has any event."""
        return bool(await self._parts.store.events.newest(self._parts.caller.org, None, 1))

    def _stream(self, stream: Stream | str) -> Stream:
        name, known = stream.name if isinstance(stream, Stream) else stream, self._parts.streams
        if name not in known:
            raise NotFoundError(f"there is no stream {name!r:.100}; {suggest(str(name), known)}")
        return known[name]

    def _prepared(self, stream: Stream, event: Event) -> PreparedEvent:
        require_kind("event", event, Event)
        org = self._parts.caller.org
        if event.org not in (None, org):
            raise InvalidValueError(
                f"the event belongs to the organization {event.org!r}, but the caller acts for {org!r}; use "
                f"app.events(org={event.org!r})"
            )
        return self._parts.recorder.prepare(stream, replace(event, org=org))

    async def _write(self, prepared: Sequence[PreparedEvent]) -> tuple[Written, dict[str, str]]:
        store = self._parts.store
        async with store.database.transaction() as session:
            written = await self._parts.recorder.write(session, prepared)
            ids = {
                event.row.dedupe_key: event.row.id for event in prepared if event.row.id in written.event_ids
            }
            for event in prepared:
                row = event.row
                if row.dedupe_key not in ids:
                    known = await store.events.id_of_key(session, row.org, row.stream, row.dedupe_key)
                    ids[row.dedupe_key] = known
        return written, ids

    def _redacted(self, row: StoredEvent) -> Event:
        """Return an event for display. Its names may contain secrets, too."""
        parts, redacted = self._parts, self._parts.redactor.text
        payload = parts.redactor.value(decode_stored(parts.encryption.decrypt(row.payload)))
        event = event_of_row(row, payload)
        return replace(
            event,
            type=redacted(event.type),
            source=None if event.source is None else redacted(event.source),
            user=None if event.user is None else redacted(event.user),
            dedupe_key=redacted(event.dedupe_key),
        )
