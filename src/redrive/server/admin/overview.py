"""The overview page: what is broken, whether it is still happening, and whether it needs attention."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from starlette.responses import Response

from redrive.engine.breakers import BreakerView
from redrive.engine.queues import QueueView, WorkerView
from redrive.failures.overview import Overview, UnknownWork
from redrive.failures.service import Failures
from redrive.model.breaker import BreakerState
from redrive.model.failure_group import GroupLine, GroupSort
from redrive.model.operation import OperationReport, ReplayOperation
from redrive.model.query import Count
from redrive.model.replay import OperationState
from redrive.model.run import RunState
from redrive.model.statistics import Span
from redrive.server.admin.chart import Chart, Series, bars
from redrive.server.admin.groups import GroupRow, needs_of, rows_of
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.streams import StreamLine, streams

pages = Pages("overview")

GROUPS, QUEUES, REPLAYS = 8, 8, 4
LOOKED_AT, PAGES = 50, 10
NONE = Count(0, capped=False)
TOP, IGNORED = "is:needs-you -group:ignored", "is:needs-you group:ignored"

_OUTCOMES = (
    (RunState.DLQ_PENDING, "Ended as dead letter", "dead"),
    (RunState.FAILED, "Failed", "failed"),
    (RunState.PARTIAL, "Partial", "partial"),
    (RunState.CANCELLED, "Cancelled", "cancelled"),
    (RunState.SUCCESS, "Succeeded", "succeeded"),
)


class Inflow(NamedTuple):
    """Whether new dead letters still arrive: `lately` counts those since `since`.

    If `lately` is 0, the last one arrived before `quiet_since`, or none arrived in the whole span.
    """

    lately: int
    since: float
    quiet_since: float | None


class Standstill(NamedTuple):
    """Work that cannot continue until an operator acts.

    replays  bulk replays that are paused or stopped automatically
    queues   paused queues with ready runs
    unknown  runs that no worker knows
    idle     runs are ready, and no worker is running
    streams  streams that are not read, or that are behind
    """

    replays: Sequence[ReplayOperation]
    queues: Sequence[QueueView]
    unknown: Sequence[UnknownWork]
    idle: bool
    streams: Sequence[StreamLine] = ()

    @property
    def any(self) -> bool:
        return bool(self.replays or self.queues or self.unknown or self.idle or self.streams)


class ActiveReplay(NamedTuple):
    operation: ReplayOperation
    report: OperationReport


@pages.get("")
async def overview(page: OnPage, span: Span = Span.DAY) -> Response:
    visit, zone = page.visit, page.preferences.zone
    failures = visit.failures
    shared, active_replays = await _shared(page), await _active_replays(failures)
    seen = await visit.failures.overview(span)
    return await page.render(
        "overview.html",
        place="overview",
        spans=list(Span),
        seen=seen,
        inflow=inflow_of(seen),
        ignored_query=IGNORED,
        ignored=await _ignored(failures) if seen.totals.needs_you.total else NONE,
        is_new=not (await visit.runs.list(size=1)).runs,
        runs=runs_chart(seen, zone),
        letters=letters_chart(seen, zone),
        top=await _top(failures),
        active_replays=active_replays,
        standstill=standstill_of(
            active_replays, shared["queues"], seen.totals.unknown_work, shared["workers"]
        )._replace(streams=[line for line in await streams(page) if line.needs_you]),
        more_queues=max(0, len(shared["queues"]) - QUEUES),
        **shared | {"queues": shared["queues"][:QUEUES]},
    )


def inflow_of(seen: Overview) -> Inflow:
    """Count the last two parts of the span: the very last one is still in progress."""
    lately = sum(seen.new[-2:])
    since = seen.start + (len(seen.new) - 2) * seen.width
    last = max((at for at, number in enumerate(seen.new) if number), default=None)
    return Inflow(lately, since, None if last is None else seen.start + (last + 1) * seen.width)


def standstill_of(
    active_replays: Sequence[ActiveReplay],
    queues: Sequence[QueueView],
    unknown: Sequence[UnknownWork],
    workers: Sequence[WorkerView],
) -> Standstill:
    ready = [queue for queue in queues if queue.own.ready.number]
    return Standstill(
        [line.operation for line in active_replays if line.operation.state != OperationState.RUNNING],
        [queue for queue in ready if queue.paused],
        unknown,
        bool(ready) and not workers,
    )


def runs_chart(seen: Overview, zone: tzinfo) -> Chart:
    """Draw failed runs at the bottom, where they are easy to compare."""
    series = [Series(name, tone, seen.runs[state]) for state, name, tone in _OUTCOMES]
    visible = [line for line in series if line.tone in ("dead", "succeeded") or any(line.numbers)]
    return bars("Runs by outcome", seen.start, seen.width, visible, zone)


def letters_chart(seen: Overview, zone: tzinfo) -> Chart:
    series = [Series("New", "came", seen.new), Series("Closed", "left", seen.closed, below=True)]
    return bars("New and closed dead letters", seen.start, seen.width, series, zone)


async def _top(failures: Failures) -> Sequence[GroupRow]:
    """Return the groups with the most dead letters that need attention.

    A group has at most as many of them as it has occurrences. So the search ends as soon as the next groups
    have fewer occurrences than the last group found has dead letters that need attention.
    """
    top: list[tuple[int, GroupLine]] = []
    cursor = None
    for _ in range(PAGES):
        found = await failures.groups.list(TOP, sort=GroupSort.OCCURRENCES, size=LOOKED_AT, cursor=cursor)
        needs = await _needs(failures, found.lines)
        top += [(needs[line.group.fingerprint], line) for line in found.lines]
        top = sorted(top, key=lambda pair: -pair[0])[:GROUPS]
        cursor = found.next_cursor
        if cursor is None or top[-1][0] >= found.lines[-1].group.occurrences:
            break
    return await rows_of(failures.groups, [line for _, line in top])


async def _ignored(failures: Failures) -> Count:
    """Count the dead letters of ignored groups, which are few, that would otherwise need attention."""
    found = await failures.groups.list(IGNORED, sort=GroupSort.OCCURRENCES, size=LOOKED_AT)
    needs = await _needs(failures, found.lines)
    return Count(sum(needs.values()), found.next_cursor is not None)


async def _needs(failures: Failures, lines: Sequence[GroupLine]) -> dict[str, int]:
    names = [line.group.fingerprint for line in lines]
    records = await failures.groups.records(names)
    return {name: needs_of(line.letters, records[name]) for name, line in zip(names, lines, strict=True)}


async def _active_replays(failures: Failures) -> Sequence[ActiveReplay]:
    """Return the replays in progress; paused and stopped ones come first."""
    found = await failures.plans.active()
    first = sorted(found, key=lambda operation: operation.state == OperationState.RUNNING)[:REPLAYS]
    return [ActiveReplay(operation, await failures.plans.report(operation.id)) for operation in first]


async def _shared(page: Page) -> dict[str, Any]:
    """Return breakers, queues and workers, which all organizations share."""
    visit = page.visit
    breakers, queues = await visit.breakers.list(), await visit.queues.list()
    workers = await visit.workers.list()
    return {
        "breakers": sorted(breakers, key=_breaker_urgency),
        "queues": sorted(queues, key=_queue_urgency),
        "workers": [worker for worker in workers if worker.condition == "running"],
    }


def _breaker_urgency(breaker: BreakerView) -> tuple[bool, int, str]:
    return breaker.state == BreakerState.CLOSED, -breaker.waiting.number, breaker.name


def _queue_urgency(queue: QueueView) -> tuple[bool, float, int, str]:
    depths = queue.own
    return not queue.paused, -(depths.oldest_ready_seconds or 0.0), -depths.ready.number, queue.name
