"""The page of one failure group: is it still happening, what is it, and what is to be done about it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from starlette.responses import Response

from redrive.errors import NotFoundError
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.failure_group import GROUP_TRANSITIONS, GroupDetail, GroupShare, GroupState, Timeline
from redrive.model.query import Query, Term
from redrive.server.admin.chart import Chart, Series, bars
from redrive.server.admin.dead_letters import row_of
from redrive.server.admin.group_rows import GroupRow, short
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.stack import stack_of
from redrive.server.api.groups import Fingerprint

pages = Pages("groups")

NEWEST, VERSIONS, QUEUES = 10, 8, 8
HOUR = 3600.0


class Span(StrEnum):
    DAY = "24h"
    WEEK = "7d"

    @property
    def seconds(self) -> float:
        return {Span.DAY: 24 * HOUR, Span.WEEK: 168 * HOUR}[self]

    @property
    def parts(self) -> int:
        return {Span.DAY: 48, Span.WEEK: 84}[self]


class Share(NamedTuple):
    """A part of the whole; `query` finds it."""

    name: str
    number: int
    part: float
    query: str = ""


@pages.get("/dlq/groups/{fingerprint}")
async def group(page: OnPage, fingerprint: Fingerprint, span: Span = Span.DAY) -> Response:
    desk = await page.visit.desk()
    detail = await desk.groups.get(fingerprint)
    name = detail.group.fingerprint
    over_time = await desk.groups.occurrences(name, seconds=span.seconds, buckets=span.parts)
    newest = await desk.dead_letters.list(f"fp:{name}", size=NEWEST)
    return await page.render(
        "group.html",
        place="dlq",
        detail=detail,
        row=await _row(desk, detail),
        steps=_steps(detail),
        span=span,
        spans=list(Span),
        chart=_chart(page, over_time, span),
        capped=over_time.capped,
        newest=[row_of(each) for each in newest.lines],
        replays=_replays(detail.replays),
        reaching=await desk.operations.reaching(name),
        **await _sample(desk, detail),
        **_shares(detail, await desk.groups.spread(name)),
    )


async def _row(desk: Failures, detail: GroupDetail) -> GroupRow:
    name = detail.group.fingerprint
    days, records = await desk.groups.sparklines([name]), await desk.groups.records([name])
    return GroupRow(detail.group, detail.letters, days[name], records[name])


async def _sample(desk: Failures, detail: GroupDetail) -> dict[str, Any]:
    """Its newest dead letter, which somebody may have removed in this very moment."""
    letter: DeadLetter | None = None
    if detail.sample is not None:
        try:
            letter = await desk.dead_letters.get(detail.sample)
        except NotFoundError:
            letter = None
    return {"sample": letter, "stack": None if letter is None else stack_of(letter.stack)}


def _steps(detail: GroupDetail) -> frozenset[str]:
    """The states that a person can give it now."""
    now = GroupState(detail.group.state)
    return frozenset(str(state) for state in GroupState if GROUP_TRANSITIONS.allows(now, state))


def _chart(page: Page, line: Timeline, span: Span) -> Chart:
    series = [Series("Dead letters", "came", line.numbers)]
    return bars(f"Occurrences in the last {span}", line.start, line.width, series, page.look.zone)


def _replays(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """Those that have happened, in the order in which one asks for them."""
    order = ("SUCCEEDED", "FAILED", "RUNNING", "PLANNED", "CANCELLED", "REFUSED", "SKIPPED")
    return [(state, numbers[state]) for state in order if numbers.get(state)]


def _shares(detail: GroupDetail, spread: Sequence[GroupShare]) -> dict[str, Any]:
    asked = f"fp:{short(detail.group.fingerprint)}"
    states = _summed((each.state, each.number) for each in spread)
    queues = _summed((each.queue, each.number) for each in spread)
    versions = [(each.code_version, each.occurrences) for each in detail.versions]
    return {
        "asked": asked,
        "by_state": _parts(
            [(str(each), states.get(each, 0)) for each in DeadLetterState],
            lambda name: f"{asked} is:{name.lower()}",
        ),
        "by_queue": _parts(
            sorted(queues.items(), key=lambda each: -each[1])[:QUEUES],
            lambda name: f"{asked} {Query((Term('queue', (name,)),))}",
        ),
        "by_version": _parts(
            versions[:VERSIONS], lambda name: f"{asked} {Query((Term('version', (name,)),))}" if name else ""
        ),
        "newest_version": next((each.code_version for each in detail.versions if each.code_version), ""),
    }


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in pairs:
        found[name] = found.get(name, 0) + number
    return found


def _parts(pairs: Sequence[tuple[str, int]], query: Any) -> list[Share]:
    most = sum(number for _, number in pairs) or 1
    return [Share(name, number, number / most, query(name)) for name, number in pairs if number]
