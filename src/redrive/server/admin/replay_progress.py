"""How far a bulk replay is: a bar of its items by state, and what can honestly be said about the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.model.operation import OperationReport
from redrive.model.replay import ReplayState
from redrive.policy.rollout import Rollout

WIDTH = 1000.0
LEAST = 6.0
"""Of a part of the bar: what is there is seen, however little it is."""

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

ENOUGH_ENDED, ENOUGH_SECONDS = 20, 5.0
"""A pace is told from so many on, over so long."""
STANDSTILL = 30.0
"""When nothing has ended for so long, a pace means nothing any more."""


class Part(NamedTuple):
    """A piece of the bar; `x` and `width` in thousandths of it."""

    state: str
    number: int
    x: float
    width: float


def bar(counts: Mapping[str, int]) -> tuple[Part, ...]:
    """All states in their order, also those that nothing is in."""
    numbers = [counts.get(state, 0) for state in ORDER]
    widths = _widths(numbers)
    starts = [sum(widths[:index]) for index in range(len(widths))]
    return tuple(
        Part(str(state), number, round(x, 2), round(width, 2))
        for state, number, x, width in zip(ORDER, numbers, starts, widths, strict=True)
    )


def _widths(numbers: Sequence[int]) -> list[float]:
    total = sum(numbers)
    if not total:
        return [0.0] * len(numbers)
    raised = [max(LEAST, WIDTH * number / total) if number else 0.0 for number in numbers]
    return [WIDTH * width / sum(raised) for width in raised]


def ended(counts: Mapping[str, int]) -> int:
    return sum(counts.get(state, 0) for state in ENDED)


def replayed(counts: Mapping[str, int]) -> int:
    """What runs, has run or will: all but what was refused or left out."""
    return sum(number for state, number in counts.items() if state not in ("REFUSED", "SKIPPED"))


class Pace(NamedTuple):
    """`rate` items a second since the canary; `seconds` are left if it goes on so."""

    rate: float
    seconds: float


def pace(report: OperationReport, rollout: Rollout, now: float) -> Pace | None:
    """None where it could only be guessed: in the canary, after a few items, at a standstill."""
    operation, items = report.operation, report.items
    last = report.last_ended_at
    if operation.state != "RUNNING" or operation.ramped_at is None or last is None or now - last > STANDSTILL:
        return None
    judged = items[ReplayState.SUCCEEDED] + items[ReplayState.FAILED]
    done = judged - rollout.pardoned.judged - rollout.options.canary
    seconds = now - operation.ramped_at
    if done < ENOUGH_ENDED or seconds < ENOUGH_SECONDS:
        return None
    rate = done / seconds
    return Pace(rate, (items[ReplayState.PLANNED] + items[ReplayState.RUNNING]) / rate)


class Canary(NamedTuple):
    """So many of the canary were begun and have ended."""

    size: int
    begun: int
    ended: int


def canary(report: OperationReport, rollout: Rollout) -> Canary | None:
    """None when there is none, or it is over."""
    size = min(rollout.options.canary, replayed(report.items))
    if report.operation.ramped_at is not None or not size:
        return None
    begun = max(0, report.operation.released - rollout.pardoned.begun)
    return Canary(size, min(begun, size), max(0, min(begun, size) - report.items[ReplayState.RUNNING]))
