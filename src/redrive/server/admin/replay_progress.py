"""The progress of a bulk replay: a bar of its items by state, its canary, and its pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.model.operation import OperationReport
from redrive.model.replay import ReplayState
from redrive.policy.rollout import RolloutPlan

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
"""A pace is known after this many items, over this long."""
STANDSTILL_SECONDS = 30.0
"""If no item has finished for this long, a pace means nothing any more."""


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
    """Count the items that run, ran or will run: all but those refused or left out."""
    return sum(number for state, number in counts.items() if state not in ("REFUSED", "SKIPPED"))


class Pace(NamedTuple):
    """`rate` items per second since the canary; at this pace, `seconds` are left."""

    rate: float
    seconds: float


def pace(report: OperationReport, rollout: RolloutPlan, now: float) -> Pace | None:
    """Return None if it would be a guess: in the canary, after a few items, at a standstill."""
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
    """Return None if there is no canary, or it is over."""
    size = min(rollout.options.canary, replayed(report.items))
    if report.operation.ramped_at is not None or not size:
        return None
    started = min(size, max(0, report.operation.released - rollout.pardoned.begun))
    return Canary(size, started, max(0, started - report.items[ReplayState.RUNNING]))
