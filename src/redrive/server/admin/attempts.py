"""Attempts as rows of a table, and the two of them that somebody wants to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.run_view import AttemptView
from redrive.policy.fingerprint import normalize
from redrive.server.admin.compare import Comparison, compared, seconds_of

MAX_ROWS = 50


class AttemptRow(NamedTuple):
    """`same`: it failed like the one before it, but for numbers and ids; None when there is none before it.

    begins  it is the first of a replay
    """

    attempt: AttemptView
    seconds: float | None
    same: bool | None
    begins: bool


class Chosen(NamedTuple):
    numbers: tuple[int, int] | None = None
    problem: str = ""


def attempt_rows(attempts: Sequence[AttemptView]) -> Sequence[AttemptRow]:
    """The newest first, at most 50."""
    pairs = zip(attempts, [None, *attempts], strict=False)
    rows = [_row(each, before) for each, before in pairs]
    return rows[::-1][:MAX_ROWS]


def chosen(given: Sequence[str] | None, attempts: Sequence[AttemptView]) -> Chosen:
    """Two numbers, as in 2,5; each may also be given by itself."""
    if not given:
        return Chosen()
    known = {str(each.number): each.number for each in attempts}
    asked = dict.fromkeys(part.strip() for part in ",".join(given).split(",") if part.strip())
    if len(asked) != 2:
        return Chosen(problem=f"Choose two attempts to compare; {len(asked):,} were chosen.")
    missing = [each for each in asked if each not in known]
    if missing:
        return Chosen(problem=f"There is no attempt {missing[0][:20]} to compare.")
    first, second = sorted(known[each] for each in asked)
    return Chosen((first, second))


def compared_rows(attempts: Sequence[AttemptView], numbers: tuple[int, int] | None) -> Comparison | None:
    if numbers is None:
        return None
    by_number = {each.number: each for each in attempts}
    return compared(by_number[numbers[0]], by_number[numbers[1]])


def _row(attempt: AttemptView, before: AttemptView | None) -> AttemptRow:
    same = None if before is None else _manner(attempt) == _manner(before)
    begins = before is not None and attempt.replay != before.replay
    return AttemptRow(attempt, seconds_of(attempt), same, begins)


def _manner(attempt: AttemptView) -> tuple[object, ...]:
    message = normalize(attempt.message or "")
    return attempt.outcome, attempt.category, attempt.error_type, attempt.http_status, message
