"""The list of dead letters, grouped by failure or flat. The default query is is:needs-you."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import StrEnum
from shlex import quote
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Query
from starlette.responses import Response

from redrive.engine.id_lookup import IdKind
from redrive.errors import InvalidValueError, QueryWordError, StatementTimeoutError
from redrive.failures.service import Failures
from redrive.model.query import Count
from redrive.policy.query import about_groups, parse
from redrive.server.admin.dead_letter import row_of
from redrive.server.admin.groups import rows_of, sections_of
from redrive.server.admin.jump import page_of_id
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.selection import select_query
from redrive.server.api.request import Cursor

pages = Pages("dead_letters")

SIZE = 50
NEEDS_YOU, HEALS_ITSELF, EVERYTHING = "is:needs-you", "is:heals-itself", "is:any"
STATES = ("OPEN", "EXHAUSTED", "REPLAYING", "RESOLVED", "IGNORED", "ARCHIVED")


class View(StrEnum):
    GROUPS = "groups"
    FLAT = "flat"


class Sort(StrEnum):
    LAST_SEEN = "last_seen"
    OCCURRENCES = "occurrences"
    NEWEST = "newest"
    OLDEST = "oldest"


SORTS = {View.GROUPS: (Sort.LAST_SEEN, Sort.OCCURRENCES), View.FLAT: (Sort.NEWEST, Sort.OLDEST)}


class ListRequest(NamedTuple):
    """What the list shows. `forced`: only this view has the keys of the query."""

    query: str
    view: View
    sort: Sort
    cursor: str | None
    forced: bool = False

    @property
    def parameters(self) -> dict[str, str | None]:
        """The parameters of the address, without the query and without defaults."""
        view = None if self.view is View.GROUPS or self.forced else self.view
        return {"view": view, "sort": None if self.sort is SORTS[self.view][0] else self.sort}

    @property
    def command(self) -> str:
        verb = "groups" if self.view is View.GROUPS else "list"
        return f"redrive dlq {verb} {quote(self.query)}"


T = TypeVar("T")
Text = Annotated[str | None, Query(max_length=2000)]


@pages.get("/dlq")
async def listed(
    page: OnPage, q: Text = None, view: View | None = None, sort: Sort | None = None, cursor: Cursor = None
) -> Response:
    query = (NEEDS_YOU if q is None else q.strip()) or EVERYTHING
    failures, problem, correction, status, found = page.visit.failures, "", "", 200, _nothing()
    asked = _request(query, view or View.GROUPS, sort, cursor)
    try:
        if (found_page := await page_of_id(page, query, IdKind.DEAD_LETTER)) is not None:
            return found_page
        asked = _checked_request(query, view, sort, cursor)
        found |= await (_grouped if asked.view is View.GROUPS else _flat)(page, failures, asked)
    except InvalidValueError as error:
        problem, correction, status = str(error), corrected(query, error), 422
    except StatementTimeoutError as error:
        problem, status = str(error), 503
    return await page.render(
        "dead_letters.html",
        place="dlq",
        status=status,
        asked=asked,
        problem=problem,
        correction=correction,
        totals=await page.visit.failures.totals(),
        states=STATES,
        sorts=SORTS[asked.view],
        views=await page.saved_views("dlq"),
        **found,
    )


def corrected(query: str, error: InvalidValueError) -> str:
    """Return the query with the word that the error suggests; empty if it suggests none."""
    if not isinstance(error, QueryWordError) or error.suggestion is None:
        return ""
    start = error.position - 1
    end = start + len(error.word)
    return query[:start] + error.suggestion + query[end:] if query[start:end] == error.word else ""


def _checked_request(query: str, view: View | None, sort: Sort | None, cursor: str | None) -> ListRequest:
    """Choose the view that has the keys of the query; if both have them, the requested one."""
    if not about_groups(query):
        return _request(query, View.FLAT, sort, cursor, forced=True)
    if not _is_about_letters(query):
        return _request(query, View.GROUPS, sort, cursor, forced=True)
    return _request(query, view or View.GROUPS, sort, cursor)


def _request(
    query: str, view: View, sort: Sort | None, cursor: str | None, *, forced: bool = False
) -> ListRequest:
    known = SORTS[view]
    return ListRequest(query, view, sort if sort in known and sort is not None else known[0], cursor, forced)


def _is_about_letters(query: str) -> bool:
    try:
        parse(query)
    except InvalidValueError:
        return False
    return True


async def _grouped(page: Page, failures: Failures, asked: ListRequest) -> dict[str, Any]:
    found = await failures.groups.list(
        asked.query, sort=asked.sort.value, size=_size(page), cursor=asked.cursor
    )
    rows = await rows_of(failures.groups, found.lines)
    known = _known(asked, found.next_cursor, len(rows))
    return {
        "sections": sections_of(rows),
        "next_cursor": found.next_cursor,
        "count": known or await _in_time(failures.groups.count(asked.query)),
        "letters": sum(row.actionable for row in rows) if known else None,
        "selection": None if known else await _in_time(select_query(failures, asked.query, grouped=True)),
    }


async def _flat(page: Page, failures: Failures, asked: ListRequest) -> dict[str, Any]:
    found = await failures.list(asked.query, size=_size(page), cursor=asked.cursor, order=asked.sort.value)
    known = _known(asked, found.next_cursor, len(found.lines))
    count = known or await _in_time(failures.count(asked.query))
    return {
        "lines": [row_of(line) for line in found.lines],
        "next_cursor": found.next_cursor,
        "count": count,
        "selection": None if known else await _in_time(select_query(failures, asked.query, count)),
    }


def _known(asked: ListRequest, next_cursor: str | None, number: int) -> Count | None:
    """Return how many there are if all are on this page. Then there is nothing to count."""
    return Count(number, capped=False) if asked.cursor is None and next_cursor is None else None


async def _in_time(counting: Awaitable[T]) -> T | None:
    """Return None if counting takes too long: a list without its number is better than none."""
    try:
        return await counting
    except StatementTimeoutError:
        return None


def _nothing() -> dict[str, Any]:
    return dict.fromkeys(("count", "letters", "next_cursor", "selection")) | {"lines": (), "sections": ()}


def _size(page: Page) -> int:
    return min(SIZE, page.visit.parts.settings.server_page_size)
