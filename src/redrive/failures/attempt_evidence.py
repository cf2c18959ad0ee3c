"""What the recorded attempts of a step show, as values for `redrive.policy.what_if`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from redrive.engine.definition import StepDefinition
from redrive.model.decision import Reason
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.step import AttemptOutcome, Effect
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.what_if import Failed, FailedStep, Proof, Works
from redrive.store.attempt_history import TriedRow

_ASKED = re.compile(r"; the server asked for ([0-9.e+-]+) s")
_CATEGORIES, _CLASSES = frozenset(map(str, Category)), frozenset(map(str, ErrorClass))
_BY_POLICY = frozenset(
    {
        Reason.BACKOFF,
        Reason.RATE_LIMIT_HINT,
        Reason.ATTEMPTS_SPENT,
        Reason.RATE_LIMIT_WAITS_SPENT,
        Reason.NO_RETRIES,
        Reason.FINAL_ERROR,
        Reason.UNKNOWN_ERROR,
        Reason.NOT_REPEATABLE,
    }
)
"""Reasons that a retry policy decides by; decisions for other reasons did not ask it."""


class Exclusion(StrEnum):
    """Why attempts show nothing about a policy."""

    NO_FAILURE = "no_failure"
    IN_PROGRESS = "in_progress"
    EXTERNAL = "external"


class FailureStory(NamedTuple):
    """The failures of a step until it ended first, and what followed.

    last_failed_at  when it failed last, also in replays
    works           since when it works, if it succeeded itself or in a replay of the same payload
    """

    trouble: FailedStep
    last_failed_at: float
    works: Works | None

    @property
    def category(self) -> Category:
        return self.trouble.failed[-1].failure.category

    @property
    def began(self) -> float:
        return self.trouble.failed[0].started_at


def read_attempts(rows: Sequence[TriedRow], step: StepDefinition) -> FailureStory | Exclusion:
    """Read the attempts of one step of one run, in order. Those after the first ending are replays."""
    first, rest = _until_ended(rows)
    if rows[0].reason == Reason.REPORTED:
        return Exclusion.EXTERNAL
    ended = first[-1]
    success = _success(ended, rows)
    if success is None and (ended.delay is not None or ended.outcome == AttemptOutcome.CANCELLED):
        return Exclusion.IN_PROGRESS
    failed = _failed(first, step)
    if not failed:
        return Exclusion.NO_FAILURE
    trouble = FailedStep(failed, success, step.retry, step.effect is not Effect.UNSAFE)
    last = max([failed[-1].ended_at, *(row.ended_at for row in rest if row.outcome == AttemptOutcome.FAILED)])
    since = success if success is not None else _replayed(rest, rows[0])
    return FailureStory(trouble, last, None if since is None else Works(since, Proof.ITSELF))


def _until_ended(rows: Sequence[TriedRow]) -> tuple[Sequence[TriedRow], Sequence[TriedRow]]:
    for place, row in enumerate(rows, 1):
        if row.delay is None:
            return rows[:place], rows[place:]
    return rows, ()


def _success(ended: TriedRow, rows: Sequence[TriedRow]) -> float | None:
    """When the attempt started that succeeded without a replay. It has a row only if a replay went back
    behind it."""
    if ended.outcome == AttemptOutcome.SUCCEEDED:
        return ended.started_at or ended.ended_at
    if ended.delay is None or ended is not rows[-1] or (ended.success_number or 0) <= ended.number:
        return None
    return ended.success_started_at


def _replayed(rest: Sequence[TriedRow], first: TriedRow) -> float | None:
    """When the first attempt of a replay started that succeeded with the unchanged payload."""
    if first.edited:
        return None
    kept = [row.started_at or row.ended_at for row in rest if row.outcome == AttemptOutcome.SUCCEEDED]
    return min(kept, default=first.success_started_at)


def _failed(rows: Iterable[TriedRow], step: StepDefinition) -> tuple[Failed, ...]:
    """The failed attempts. One that was given back or lost did not fail, unless the step ended with it."""
    found: list[Failed] = []
    hint: float | None = None
    for row in rows:
        if row.outcome == AttemptOutcome.SUCCEEDED or (
            row.outcome != AttemptOutcome.FAILED and row.delay is not None
        ):
            continue
        asked = _asked(row, hint)
        hint = asked if row.reason == Reason.RATE_LIMIT_HINT else hint
        bound = row.outcome != AttemptOutcome.FAILED or row.reason not in _BY_POLICY
        bound = bound or (row.reason == Reason.RATE_LIMIT_WAITS_SPENT and asked is None)
        started = row.ended_at if row.started_at is None else row.started_at
        found.append(Failed(started, row.ended_at, row.delay, _failure(row, step, asked), bound))
    return tuple(found)


def _asked(row: TriedRow, before: float | None) -> float | None:
    """The wait that the server asked for. Of the wait that spent the budget, only the one before is known."""
    if row.reason == Reason.RATE_LIMIT_HINT:
        return row.delay
    if row.reason == Reason.RATE_LIMIT_WAITS_SPENT:
        return before
    found = None if row.asked is None else _ASKED.search(row.asked)
    return None if found is None else float(found[1])


def _failure(row: TriedRow, step: StepDefinition, asked: float | None) -> Failure:
    category = Category(row.category) if row.category in _CATEGORIES else Category.UNKNOWN
    stored = _error_class(row)
    return Failure(
        category,
        stored,
        rule="",
        error_type="",
        message="",
        public_code="",
        public_message="",
        retry_after=asked,
        # It was repeated although it must not execute twice, so it cannot have been executed.
        delivery=Delivery.NEVER_SEEN if row.delay is not None else Delivery.MAYBE_SEEN,
        said=_is_class_explicit(category, stored, row.reason),
    )


def _error_class(row: TriedRow) -> ErrorClass:
    if row.error_class is not None and row.error_class in _CLASSES:
        return ErrorClass(row.error_class)
    return ErrorClass.FINAL if row.delay is None else ErrorClass.RETRYABLE


def _is_class_explicit(category: Category, stored: ErrorClass, reason: str) -> bool:
    if category is Category.UNKNOWN:
        return reason == Reason.FINAL_ERROR
    return stored is not CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL)
