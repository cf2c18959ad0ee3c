"""Lists of runs by a query, newest first, and the depths of queues, without payloads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from redrive.model.query import MAX_COUNTED, Count, Order, Query
from redrive.model.run import ListedRun, RunLine
from redrive.store.cursor import Cursor
from redrive.store.database import Row, Session
from redrive.store.rows import read_rows
from redrive.store.run_filter import HELD, Branch, RunFilter
from redrive.store.statement import Statement, compose, statements, template

_SQL = statements("run_listing", RunLine)
_PERIODS = (3_600.0, 86_400.0)
"""A query that checks runs one at a time tries the last hour, then the last day: they often fill a page."""
_KEYED = ("_over", "_idle")
"""Branches with two forms: one reads the newest runs of each key, the other (`_all`) reads all runs."""
_NOTHING = "SELECT id, submitted_at FROM redrive.runs WHERE 1 = 0"


class RunLines(NamedTuple):
    """`next_cursor` is None on the last page."""

    lines: list[ListedRun]
    next_cursor: str | None


class Depth(NamedTuple):
    """The number of runs of a queue in a place, counted up to a limit.

    shared  1 if the limit applies to the sum over several rows
    oldest  when the oldest of the runs was submitted
    """

    queue: str
    place: str
    number: int
    shared: int
    oldest: float | None
    now: float


class Held(NamedTuple):
    """The number of runs that each breaker or limit holds. `capped`: there are more than counted."""

    numbers: Mapping[str, int]
    capped: bool

    def by(self, holder: str) -> Count:
        return Count(self.numbers.get(holder, 0), self.capped)


class RunListing:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def page(self, query: Query, org: str, size: int, cursor: str | None = None) -> RunLines:
        last = None if cursor is None else Cursor.read(cursor, Order.NEWEST)
        rows = await self._newest(RunFilter.of(query, org), last, size + 1)
        lines = read_rows(ListedRun, rows[:size])
        if len(rows) <= size:
            return RunLines(lines, None)
        return RunLines(lines, str(Cursor(Order.NEWEST, lines[-1].submitted_at, lines[-1].id)))

    async def _newest(self, wanted: RunFilter, last: Cursor | None, most: int) -> list[Row]:
        more = {} if last is None else {"last_at": last.at, "last_id": last.id}
        parameters = {**wanted.parameters, **more, "most": most}
        onwards = last is not None
        for seconds in _PERIODS if wanted.scans else ():
            statement = _statement("_page", wanted, onwards=onwards, period=True)
            rows = await self._session.fetch(statement, {**parameters, "seconds": seconds})
            if len(rows) == most:
                return rows
        return await self._session.fetch(_statement("_page", wanted, onwards=onwards), parameters)

    async def count(self, query: Query, org: str, most: int = MAX_COUNTED) -> Count:
        """Count matching runs, up to `most`."""
        wanted = RunFilter.of(query, org)
        statement = _statement("_count", wanted)
        [[number]] = await self._session.fetch(statement, {**wanted.parameters, "most": most + 1})
        return Count(min(number, most), number > most)

    async def held(self, org: str, most: int = MAX_COUNTED) -> Held:
        """Count the held runs of the org by breaker or limit, up to `most` in total."""
        rows = await self._session.fetch(_HELD, {"org": org, "most": most})
        numbers = {row[0]: row[1] for row in rows}
        return Held(numbers, sum(numbers.values()) == most)

    async def depths(self, org: str, most: int = MAX_COUNTED) -> list[Depth]:
        """Return the depths for one org. Several rows may have the same queue and place: add them up."""
        rows = await self._session.fetch(_SQL["depths"], {"org": org, "most": most + 1})
        return [Depth._make(row) for row in rows]

    async def overall_depths(self, most: int = MAX_COUNTED) -> list[Depth]:
        """Return the depths for all orgs. Work that is not ready is counted up to `most` over all queues."""
        rows = await self._session.fetch(_SQL["overall_depths"], {"most": most + 1})
        return [Depth._make(row) for row in rows]


def _statement(name: str, wanted: RunFilter, *, onwards: bool = False, period: bool = False) -> Statement:
    sqlite, postgres = (_text(name, wanted, onwards, period, on_postgres) for on_postgres in (False, True))
    return compose(f"runs{name}", sqlite, postgres)


def _text(name: str, wanted: RunFilter, onwards: bool, period: bool, postgres: bool) -> str:
    conditions = ["_after"] if onwards else []
    if period:
        conditions.append("_shortly_before" if onwards else "_lately")
    further = "".join(f" AND {_template(condition, postgres)}" for condition in conditions)
    kind = "_all" if name == "_count" or period else ""
    branches = [_branch(branch, kind, further, postgres) for branch in wanted.branches]
    return _template(name, postgres).replace("{branches}", " UNION ALL ".join(branches) or _NOTHING)


def _branch(branch: Branch, kind: str, further: str, postgres: bool) -> str:
    text = _template(branch.name + (kind if branch.name in _KEYED else ""), postgres)
    return text.replace("{keys}", branch.keys).replace("{rows}", branch.rows + further)


@cache
def _template(name: str, postgres: bool) -> str:
    return template("run_listing", name, postgres=postgres)


_HELD = compose(
    "held", *(_template("_holders", postgres).replace("{keys}", HELD) for postgres in (False, True))
)
