"""Finding events: lists by a query, newest first, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.model.query import Count, Query
from redrive.model.stream import EventLine, ProjectionRecord
from redrive.policy.bounds import require_whole
from redrive.policy.query import parse
from redrive.policy.query_language import EVENTS
from redrive.policy.redact import Redactor
from redrive.store.store import Store

MAX_PAGE_SIZE = 500


class EventSummary(NamedTuple):
    """A stored event in a list: without its payload, with the state of each projection.

    message_id   the id of the Redis entry; None if the application recorded the event itself
    occurred_at  when it happened, as its publisher says
    stored_at    when it was stored
    """

    id: str
    stream: str
    type: str
    source: str | None
    user: str | None
    dedupe_key: str
    message_id: str | None
    occurred_at: Instant | None
    stored_at: Instant
    projections: Sequence[ProjectionRecord]


class EventPage(NamedTuple):
    """A page of events. `next_cursor` is None on the last page."""

    events: Sequence[EventSummary]
    next_cursor: str | None


class EventQueries:
    """Finds the events of the caller's organization."""

    def __init__(self, store: Store, caller: Caller, redactor: Redactor) -> None:
        self._store = store
        self._org = caller.org
        self._redactor = redactor

    async def find(self, query: str = "", *, size: int = 50, cursor: str | None = None) -> EventPage:
        """Return a page of the events that match the query (redrive.policy.query), newest first.

        Terms about projections, such as `projector:qscore is:failed`, describe one projection of the event.
        """
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        lists = self._store.event_lists
        found = await lists.page(parse(query, EVENTS), self._org, size, cursor)
        records: dict[str, list[ProjectionRecord]] = {line.id: [] for line in found.lines}
        for record in await lists.records([line.id for line in found.lines], self._org):
            records[record.event_id].append(record)
        return EventPage([self._summary(line, records[line.id]) for line in found.lines], found.next_cursor)

    async def count(self, query: str = "") -> Count:
        """Count the events that match the query, up to 10,000."""
        return await self._store.event_lists.count(parse(query, EVENTS), self._org)

    async def event_of_run(self, run_id: str) -> str | None:
        """Return the event that a run projects; None if it projects none, or another run has followed it."""
        return await self._store.event_lists.event_of_run(run_id, self._org)

    def _summary(self, line: EventLine, projections: Sequence[ProjectionRecord]) -> EventSummary:
        redacted = self._redactor.text
        return EventSummary(
            id=line.id,
            stream=line.stream,
            type=redacted(line.type),
            source=None if line.source is None else redacted(line.source),
            user=None if line.user_id is None else redacted(line.user_id),
            dedupe_key=redacted(line.dedupe_key),
            message_id=line.message_id,
            occurred_at=line.occurred_at,
            stored_at=line.stored_at,
            projections=projections,
        )


def replayable(text: str) -> Query:
    """Parse the query of a bulk replay. It must name states, of projections that have failed."""
    query = parse(text, EVENTS)
    if not any(term.key == "is" and not term.negated for term in query.terms):
        raise InvalidValueError(
            "a bulk replay needs a state in its query, such as is:failed; to execute a projector for "
            "successful events again, rebuild it"
        )
    return query
