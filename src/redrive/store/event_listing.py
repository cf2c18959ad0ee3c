"""Lists of stored events by a query, newest first, without payloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from redrive.model.query import MAX_COUNTED, Count, Order, Query
from redrive.model.stream import EventLine, ProjectionRecord, ProjectionRow, ProjectionStatus
from redrive.policy.codec import encode
from redrive.store.cursor import Cursor
from redrive.store.database import Session, findable
from redrive.store.event_filter import EventFilter
from redrive.store.rows import read_rows
from redrive.store.statement import Statement, compose, statements, template

_MODULE = "event_listing"
_SQL = statements(_MODULE, EventLine)


class EventLines(NamedTuple):
    """`next_cursor` is None on the last page."""

    lines: list[EventLine]
    next_cursor: str | None


class EventListing:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def page(self, query: Query, org: str, size: int, cursor: str | None = None) -> EventLines:
        last = None if cursor is None else Cursor.read(cursor, Order.NEWEST)
        wanted = EventFilter.of(query, org)
        more = {} if last is None else {"last_at": last.at, "last_id": findable(last.id)}
        statement = _statement("_page", wanted, query, onwards=last is not None)
        rows = await self._session.fetch(statement, {**wanted.parameters, **more, "most": size + 1})
        lines = read_rows(EventLine, rows[:size])
        if len(rows) <= size:
            return EventLines(lines, None)
        return EventLines(lines, str(Cursor(Order.NEWEST, lines[-1].stored_at, lines[-1].id)))

    async def count(self, query: Query, org: str, most: int = MAX_COUNTED) -> Count:
        """Count matching events, up to `most`."""
        wanted = EventFilter.of(query, org)
        parameters = {**wanted.parameters, "most": most + 1}
        [[number]] = await self._session.fetch(_statement("_count", wanted, query), parameters)
        return Count(min(number, most), number > most)

    async def letters(self, query: Query, org: str, most: int) -> list[str]:
        """Return the open dead letters of matching projections, those of the oldest events first.

        The query must name states that are not successful.
        """
        wanted = EventFilter.of(query, org)
        texts = [
            _filled("_letters", wanted, query, postgres=postgres, onwards=False) for postgres in (False, True)
        ]
        parameters = {**wanted.parameters, "most": most}
        return [row[0] for row in await self._session.fetch(compose("letters", *texts), parameters)]

    async def records(self, event_ids: Sequence[str], org: str) -> list[ProjectionRecord]:
        """Return how the projectors of these events have fared."""
        parameters = {"event_ids": encode(list(event_ids)), "org": org}
        rows = await self._session.fetch(_SQL["records"], parameters)
        return [row.record() for row in read_rows(ProjectionRow, rows)]

    async def event_of_run(self, run_id: str, org: str) -> str | None:
        """Return the event that a run projects; None if it projects none, or is not its latest run."""
        rows = await self._session.fetch(_SQL["of_run"], {"run_id": findable(run_id), "org": org})
        return str(rows[0][0]) if rows else None

    async def streams(self, org: str) -> list[str]:
        """Return the names of the streams that have events."""
        return [row[0] for row in await self._session.fetch(_SQL["streams"], {"org": org})]


def _statement(name: str, wanted: EventFilter, query: Query, *, onwards: bool = False) -> Statement:
    if wanted.is_selective:
        name += "_of_wanted"
    text = partial(_filled, name, wanted, query, onwards=onwards)
    return compose(f"events{name}", text(postgres=False), text(postgres=True))


def _filled(name: str, wanted: EventFilter, query: Query, *, postgres: bool, onwards: bool) -> str:
    part = partial(template, _MODULE, postgres=postgres)
    conditions = [wanted.where]
    if onwards:
        conditions.append(part("_after"))
    if any(term.key == "key" and not term.negated for term in query.terms):
        conditions.append(part("_keyed"))
    text = part(name)
    if wanted.is_selective:
        keys = template("run_listing", "_over_keys", postgres=postgres)
        text = text.replace("{over_keys}", keys).replace("{source}", wanted.source(postgres=postgres))
    elif wanted.statuses is not None:
        exists = "_projected" if len(wanted.statuses) == len(ProjectionStatus) else "_projected_with"
        conditions.append(
            part(exists).replace("{projections}", wanted.projections).replace("{status}", wanted.status)
        )
    return text.replace("{where}", " AND ".join(conditions))
