"""The report of a bulk replay: its plan, its progress, canary and pace, its items, and how they failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, RedriveError
from redrive.failures.service import Failures
from redrive.model.audit import Action
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import FailedAs, OperationReport, ReplayOperation
from redrive.model.query import Term
from redrive.model.replay import Replay, ReplayState
from redrive.policy.description import describe_override, describe_rollout
from redrive.policy.rollout import RolloutOptions, RolloutPlan
from redrive.server.admin.selection import MAX_LISTED
from redrive.words.replay import MODES, Selection, selection_of

PAGE_SIZE, HISTORY_SIZE = 50, 20
MAX_NAMED = 80
"""The maximum number of failure groups whose titles are read at once; a query has room for them."""
MAX_REPEATED_IDS = 500
"""The maximum number of ids that "Plan again" passes on."""

WIDTH = 1000.0
MIN_WIDTH = 6.0
"""The width of the smallest part of the bar, so that every part is visible."""

ORDER = (
    ReplayState.SUCCEEDED,
    ReplayState.FAILED,
    ReplayState.RUNNING,
    ReplayState.PLANNED,
    ReplayState.CANCELLED,
    ReplayState.REFUSED,
    ReplayState.SKIPPED,
)
ENDED = (ReplayState.SUCCEEDED, ReplayState.FAILED, ReplayState.CANCELLED)

MIN_FINISHED, MIN_SECONDS = 20, 5.0
"""The pace is estimated after this many items and this much time."""
STANDSTILL_SECONDS = 30.0
"""If no item has finished for this long, the pace is unknown."""


class Item(NamedTuple):
    """`letter` is None if it was removed since."""

    replay: Replay
    letter: DeadLetterLine | None


class ReplayFailure(NamedTuple):
    """`group` is None if it was removed since."""

    how: FailedAs
    group: FailureGroup | None


async def common(failures: Failures, report: OperationReport) -> dict[str, Any]:
    operation = report.operation
    selection = selection_of(operation.selection)
    by_id = selection.kind == "ids"
    first = await failures.plans.items(operation.id, size=MAX_REPEATED_IDS if by_id else MAX_LISTED)
    letters = [replay.letter_id for replay in first.items]
    few = report.plan.selected <= MAX_LISTED
    complete = letters if by_id and first.next_cursor is None else ()
    return {
        "operation": operation,
        "plan": report.plan,
        "selection": (await named(failures, [selection]))[0],
        "modes": MODES,
        "rollout": list(describe_rollout(rollout_of(operation).options, report.plan.will_run)),
        "override": describe_override(operation.policy_override),
        "again": plan_again(operation, complete),
        "letters": await failures.lines(letters) if few else (),
    }


async def named(failures: Failures, selections: Sequence[Selection]) -> list[Selection]:
    """Add the titles of the failure groups that still exist, of at most `MAX_NAMED`."""
    names = dict.fromkeys(selection.text for selection in selections if selection.kind == "group")
    groups = await _groups(failures, tuple(names)[:MAX_NAMED])
    return [
        selection._replace(title=groups[selection.text].title) if selection.text in groups else selection
        for selection in selections
    ]


async def _groups(failures: Failures, fingerprints: Sequence[str]) -> dict[str, FailureGroup]:
    if not fingerprints:
        return {}
    try:
        found = await failures.groups.list(str(Term("fp", tuple(fingerprints))), size=len(fingerprints))
    except InvalidValueError:  # a fingerprint in a custom format
        return {}
    return {line.group.fingerprint: line.group for line in found.lines}


def rollout_of(operation: ReplayOperation) -> RolloutPlan:
    """Read the stored rollout; damaged data becomes the default, so that the page can be shown."""
    try:
        return RolloutPlan.from_json(operation.options)
    except (RedriveError, AttributeError, LookupError, TypeError):
        return RolloutPlan(RolloutOptions())


def plan_again(operation: ReplayOperation, ids: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the request that repeats the plan; None if the selection was not stored completely.

    `ids` are all dead letters of an operation that stores only some of them.
    """
    stored = operation.selection
    selected = dict(selection_of(stored).parameters) or ({"ids": list(ids)} if ids else {})
    if not selected:
        return None
    options = rollout_of(operation).options
    request = {
        **selected,
        "mode": operation.mode,
        "reason": operation.reason,
        "exclude_unsafe": bool(stored.get("exclude_unsafe")),
        **{name: getattr(options, name) for name in RolloutOptions.__slots__},
    }
    if operation.policy_override is not None:
        request["override_retry_policy"] = operation.policy_override
    return request


async def progress(
    failures: Failures, report: OperationReport, state: ReplayState | None, cursor: str | None, now: float
) -> dict[str, Any]:
    operation, rollout = report.operation, rollout_of(report.operation)
    found = await failures.plans.items(operation.id, state=state, size=PAGE_SIZE, cursor=cursor)
    history = await failures.audit.list(subject=operation.id, size=HISTORY_SIZE)
    paused = any(entry.action == Action.OPERATION_PAUSED for entry in history.entries)
    return {
        "report": report,
        "bar": bar(report.items),
        "ended": ended(report.items),
        "replayed": replayed(report.items),
        "options": rollout.options,
        "canary": canary(report, rollout),
        "pace": None if paused else pace(report, rollout, now),
        "failures": await _failures(failures, operation.id) if report.failures else (),
        "shown": await _items(failures, found.items),
        "history": history.entries,
        "states": ORDER,
        "state": state,
        "first": cursor is not None,
        "cursor": found.next_cursor,
    }


async def _items(failures: Failures, replays: Sequence[Replay]) -> list[Item]:
    lines = await failures.lines([replay.letter_id for replay in replays])
    by_id = {line.id: line for line in lines}
    return [Item(replay, by_id.get(replay.letter_id)) for replay in replays]


async def _failures(failures: Failures, operation_id: str) -> list[ReplayFailure]:
    kinds = await failures.plans.failures(operation_id)
    groups = await _groups(failures, [kind.fingerprint for kind in kinds if kind.fingerprint])
    return [ReplayFailure(kind, groups.get(kind.fingerprint)) for kind in kinds]


# Progress


class ProgressPart(NamedTuple):
    """A part of the bar; `x` and `width` are in thousandths of it."""

    state: str
    number: int
    x: float
    width: float


def bar(counts: Mapping[str, int]) -> tuple[ProgressPart, ...]:
    """Return a part for every state, even if it has no items."""
    numbers = [counts.get(state, 0) for state in ORDER]
    widths = _widths(numbers)
    starts = [sum(widths[:index]) for index in range(len(widths))]
    return tuple(
        ProgressPart(str(state), number, round(x, 2), round(width, 2))
        for state, number, x, width in zip(ORDER, numbers, starts, widths, strict=True)
    )


def _widths(numbers: Sequence[int]) -> list[float]:
    total = sum(numbers)
    if not total:
        return [0.0] * len(numbers)
    widths = [max(MIN_WIDTH, WIDTH * number / total) if number else 0.0 for number in numbers]
    return [WIDTH * width / sum(widths) for width in widths]


def ended(counts: Mapping[str, int]) -> int:
    return sum(counts.get(state, 0) for state in ENDED)


def replayed(counts: Mapping[str, int]) -> int:
    """Count the items that ran, run or will run: all except refused and skipped ones."""
    return sum(number for state, number in counts.items() if state not in ("REFUSED", "SKIPPED"))


class Pace(NamedTuple):
    """`rate` items per second since the canary; at this pace, `seconds` are left."""

    rate: float
    seconds: float


def pace(report: OperationReport, rollout: RolloutPlan, now: float) -> Pace | None:
    """Return None if there is too little data: in the canary, after a few items, at a standstill."""
    operation, items = report.operation, report.items
    last = report.last_ended_at
    if (
        operation.state != "RUNNING"
        or operation.ramped_at is None
        or last is None
        or now - last > STANDSTILL_SECONDS
    ):
        return None
    judged = items[ReplayState.SUCCEEDED] + items[ReplayState.FAILED]
    done = judged - rollout.pardoned.judged - rollout.options.canary
    seconds = now - operation.ramped_at
    if done < MIN_FINISHED or seconds < MIN_SECONDS:
        return None
    rate = done / seconds
    return Pace(rate, (items[ReplayState.PLANNED] + items[ReplayState.RUNNING]) / rate)


class Canary(NamedTuple):
    """How many items of the canary were started and have finished."""

    size: int
    started: int
    finished: int


def canary(report: OperationReport, rollout: RolloutPlan) -> Canary | None:
    """Return None if there is no canary or it has finished."""
    size = min(rollout.options.canary, replayed(report.items))
    if report.operation.ramped_at is not None or not size:
        return None
    started = min(size, max(0, report.operation.released - rollout.pardoned.begun))
    return Canary(size, started, max(0, started - report.items[ReplayState.RUNNING]))
