"""Lists of dead letters by a query: pages ordered by time, and counts up to a limit, without payloads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from redrive.model.dead_letter import DeadLetterLine
from redrive.model.query import MAX_COUNTED, Beginning, Count, Order, Query, Term, Value
from redrive.store.condition import BEYOND
from redrive.store.cursor import Cursor
from redrive.store.database import Session
from redrive.store.dead_letter_filter import Filter
from redrive.store.rows import read_rows
from redrive.store.statement import Statement, compose, statements, template

_SQL = statements("dead_letters", DeadLetterLine)
_text = cache(partial(template, "dead_letters"))

MAX_EXPANDED = 20
"""The maximum number of fingerprints that replace a prefix of them in a query."""

Letter = TypeVar("Letter", bound=DeadLetterLine)

_DIRECTIONS = {Order.NEWEST: ("DESC", "<"), Order.OLDEST: ("ASC", ">")}


class DeadLetterPage(NamedTuple):
    """`next_cursor` is None on the last page."""

    lines: list[DeadLetterLine]
    next_cursor: str | None


def read_letters(row_class: type[Letter], rows: Sequence[Sequence[Any]]) -> list[Letter]:
    """Read dead letters from rows whose last column tells whether the letter waits for one that stays.

    A letter that waits has no next redrive for readers: its time passes while it waits. The time stays stored
    and applies again when the other one is resolved. If the other one stays, an operator must handle it.
    """
    letters = read_rows(row_class, [row[:-1] for row in rows])
    return [
        letter.replace(next_redrive_at=None, waits=not row[-1]) if letter.waits else letter
        for letter, row in zip(letters, rows, strict=True)
    ]


class DeadLetterListing:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def page(
        self, query: Query, org: str, size: int, cursor: str | None = None, order: Order = Order.NEWEST
    ) -> DeadLetterPage:
        last = None if cursor is None else Cursor.read(cursor, order)
        wanted = await self._filter(self._session, query, org)
        more = {} if last is None else {"last_at": last.at, "last_id": last.id}
        statement = _listing("_page", wanted, order, onwards=last is not None)
        rows = await self._session.fetch(statement, {**wanted.parameters, **more, "most": size + 1})
        lines = read_letters(DeadLetterLine, rows[:size])
        if len(rows) <= size:
            return DeadLetterPage(lines, None)
        return DeadLetterPage(lines, str(Cursor(order, lines[-1].created_at, lines[-1].id)))

    async def count(self, query: Query, org: str, most: int = MAX_COUNTED) -> Count:
        """Count matching dead letters, up to `most`."""
        wanted = await self._filter(self._session, query, org)
        branches = " UNION ALL ".join(
            _text("_counted").replace("{where}", where) for where in wanted.branches
        )
        statement = compose("count", _text("_count").replace("{branches}", branches))
        [[number]] = await self._session.fetch(statement, {**wanted.parameters, "most": most + 1})
        return Count(min(number, most), number > most)

    async def ids(self, session: Session, query: Query, org: str, most: int) -> list[str]:
        """Return the ids of the oldest matching dead letters."""
        wanted = await self._filter(session, query, org)
        statement = _listing("_ids", wanted, Order.OLDEST, onwards=False)
        return [row[0] for row in await session.fetch(statement, {**wanted.parameters, "most": most})]

    async def _filter(self, session: Session, query: Query, org: str) -> Filter:
        return Filter.of(await self._expand_prefixes(session, query, org), org)

    async def _expand_prefixes(self, session: Session, query: Query, org: str) -> Query:
        """Replace prefixes of fingerprints by whole ones: only these can be scanned in order of time."""
        return Query(tuple([await self._expand_term(session, term, org) for term in query.terms]))

    async def _expand_term(self, session: Session, term: Term, org: str) -> Term:
        values: list[Value] = []
        for value in term.values:
            values += (
                await self._expand_prefix(session, value, org)
                if isinstance(value, Beginning) and term.key == "fp"
                else [value]
            )
        return term._replace(values=tuple(dict.fromkeys(values)))

    async def _expand_prefix(self, session: Session, beginning: Beginning, org: str) -> Sequence[Value]:
        first, most = beginning.text, MAX_EXPANDED + 1
        parameters = {"org": org, "first": first, "beyond": first + BEYOND, "most": most}
        found = [row[0] for row in await session.fetch(_SQL["fingerprints"], parameters)]
        return found if 0 < len(found) < most else [beginning]


def _listing(name: str, wanted: Filter, order: Order, *, onwards: bool) -> Statement:
    direction, sign = _DIRECTIONS[order]
    after = f" AND {_text('_after').replace('{sign}', sign)}" if onwards else ""
    branches = [_text("_branch").replace("{where}", where + after) for where in wanted.branches]
    text = _text(name).replace("{branches}", " UNION ALL ".join(branches))
    return compose(name.removeprefix("_"), text.replace("{direction}", direction))
