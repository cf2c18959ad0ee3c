"""Failure groups: their rows in lists, and the page of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from starlette.responses import Response

from redrive.errors import NotFoundError
from redrive.failures.group_queries import GroupQueries
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.failure_group import (
    GROUP_TRANSITIONS,
    REGRESSED,
    FailureGroup,
    GroupDetail,
    GroupLine,
    GroupRecord,
    GroupShare,
    GroupState,
    LetterCounts,
    Timeline,
)
from redrive.model.query import Query, Term
from redrive.model.replay import ReplayState
from redrive.policy.stack import stack_of
from redrive.server.admin.chart import Chart, Series, bars
from redrive.server.admin.dead_letter import row_of
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.replay_report import ORDER
from redrive.server.api.groups import Fingerprint
from redrive.words.folds import fold, letter_look

pages = Pages("groups")

NEWEST, VERSIONS, QUEUES = 10, 8, 8
READ = 50
"""Newest dead letters to read, so that many that look the same still leave room for others."""
REPLAYS = tuple(state for state in ORDER if state not in (ReplayState.REFUSED, ReplayState.SKIPPED))
"""The states of replays that the page of a group counts. A plan alone refuses and skips dead letters."""
HOUR = 3600.0
SHORT_LENGTH = 16
"""Digits of a fingerprint in a query: enough to be unique, and fifty fingerprints fit into one query."""


class GroupRow(NamedTuple):
    """
    needs, heals  how many of its dead letters need attention, and how many heal themselves
    found         the query for dead letters that can be replayed and closed
    """

    group: FailureGroup
    letters: LetterCounts
    day: Timeline
    record: GroupRecord

    @property
    def needs(self) -> int:
        return needs_of(self.letters, self.record)

    @property
    def ignored(self) -> bool:
        return self.group.state == GroupState.IGNORED

    @property
    def heals(self) -> int:
        return self.record.scheduled + self.letters.replaying

    @property
    def actionable(self) -> int:
        return self.letters.open + self.letters.exhausted

    @property
    def too_many(self) -> bool:
        return self.actionable > MAX_CONCURRENT

    @property
    def state(self) -> str:
        return state_of(self.group)

    @property
    def sign(self) -> str:
        """The state to show: settled if the group is open and none of its dead letters is live."""
        settled = self.letters.live == 0 and self.group.state == GroupState.OPEN
        return f"settled_{self.state}" if settled else self.state

    @property
    def short(self) -> str:
        return short(self.group.fingerprint)

    @property
    def found(self) -> str:
        return f"fp:{self.short} is:open,exhausted"


class Section(NamedTuple):
    """`kind` is one of needs, heals, ignored and closed."""

    kind: str
    rows: Sequence[GroupRow]

    @property
    def letters(self) -> int:
        return sum(row.heals if self.kind == "heals" else row.needs for row in self.rows)


async def rows_of(groups: GroupQueries, lines: Iterable[GroupLine]) -> list[GroupRow]:
    """Add the sparklines and records, with one query each for all groups."""
    known = list(lines)
    names = [line.group.fingerprint for line in known]
    days, records = await groups.sparklines(names), await groups.records(names)
    return [
        GroupRow(line.group, line.letters, days[name], records.get(name, GroupRecord()))
        for name, line in zip(names, known, strict=True)
    ]


def sections_of(rows: Sequence[GroupRow]) -> list[Section]:
    """Split rows into sections; the order within a section stays."""
    kinds: dict[str, list[GroupRow]] = {"needs": [], "heals": [], "ignored": [], "closed": []}
    for row in rows:
        kinds[_kind(row)].append(row)
    return [Section(kind, found) for kind, found in kinds.items() if found]


def _kind(row: GroupRow) -> str:
    if row.needs > 0:
        return "ignored" if row.ignored else "needs"
    return "heals" if row.heals > 0 else "closed"


def needs_of(letters: LetterCounts, record: GroupRecord) -> int:
    """Count dead letters that need attention, without the ones that will be redriven automatically."""
    return letters.open - record.scheduled + letters.exhausted


def state_of(group: FailureGroup) -> str:
    """Return REGRESSED for a group that was closed and is open again."""
    is_back = group.state == GroupState.OPEN and group.regressed_at is not None
    return REGRESSED.upper() if is_back else group.state


def short(fingerprint: str) -> str:
    version, mark, digits = fingerprint.rpartition(":")
    return f"{version}{mark}{digits[:SHORT_LENGTH]}"


# The page of one


class GroupSpan(StrEnum):
    DAY = "24h"
    WEEK = "7d"

    @property
    def seconds(self) -> float:
        return {GroupSpan.DAY: 24 * HOUR, GroupSpan.WEEK: 168 * HOUR}[self]

    @property
    def parts(self) -> int:
        return {GroupSpan.DAY: 48, GroupSpan.WEEK: 84}[self]


class Share(NamedTuple):
    """A part of the whole. `query` finds it."""

    name: str
    number: int
    part: float
    query: str = ""


@pages.get("/dlq/groups/{fingerprint}")
async def group(page: OnPage, fingerprint: Fingerprint, span: GroupSpan = GroupSpan.DAY) -> Response:
    failures = page.visit.failures
    detail = await failures.groups.view(fingerprint)
    name, now = detail.group.fingerprint, GroupState(detail.group.state)
    over_time = await failures.groups.occurrences(name, seconds=span.seconds, buckets=span.parts)
    newest = await failures.list(f"fp:{name}", size=READ)
    [row] = await rows_of(failures.groups, [GroupLine(detail.group, detail.letters)])
    return await page.render(
        "group.html",
        place="dlq",
        detail=detail,
        row=row,
        steps=frozenset(str(state) for state in GroupState if GROUP_TRANSITIONS.allows(now, state)),
        span=span,
        spans=list(GroupSpan),
        chart=_chart(page, over_time, span),
        capped=over_time.capped,
        newest=fold(map(row_of, newest.lines), lambda row: letter_look(row.line))[:NEWEST],
        replays=[(state, detail.replays[state]) for state in REPLAYS if detail.replays.get(state)],
        planned_in=await failures.plans.reaching(name),
        **await _sample(failures, detail),
        **_shares(detail, await failures.groups.spread(name)),
    )


async def _sample(failures: Failures, detail: GroupDetail) -> dict[str, Any]:
    """Return the newest dead letter, unless it was removed a moment ago."""
    letter: DeadLetter | None = None
    if detail.sample is not None:
        try:
            letter = await failures.view(detail.sample)
        except NotFoundError:
            letter = None
    return {"sample": letter, "stack": None if letter is None else stack_of(letter.stack)}


def _chart(page: Page, line: Timeline, span: GroupSpan) -> Chart:
    series = [Series("Dead letters", "came", line.numbers)]
    return bars(f"Occurrences in the last {span}", line.start, line.width, series, page.preferences.zone)


def _shares(detail: GroupDetail, spread: Sequence[GroupShare]) -> dict[str, Any]:
    asked = f"fp:{short(detail.group.fingerprint)}"
    states, queues = Counter[str](), Counter[str]()
    for share in spread:
        states[share.state] += share.number
        queues[share.queue] += share.number
    versions = [(version.code_version, version.occurrences) for version in detail.versions]
    return {
        "asked": asked,
        "by_state": _parts(
            [(str(state), states[state]) for state in DeadLetterState],
            lambda name: f"{asked} is:{name.lower()}",
        ),
        "by_queue": _parts(
            sorted(queues.items(), key=lambda item: -item[1])[:QUEUES],
            lambda name: f"{asked} {Query((Term('queue', (name,)),))}",
        ),
        "by_version": _parts(
            versions[:VERSIONS], lambda name: f"{asked} {Query((Term('version', (name,)),))}" if name else ""
        ),
        "newest_version": next((name for name, _ in versions if name), ""),
    }


def _parts(pairs: Sequence[tuple[str, int]], query: Any) -> list[Share]:
    most = sum(number for _, number in pairs) or 1
    return [Share(name, number, number / most, query(name)) for name, number in pairs if number]
