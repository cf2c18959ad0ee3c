"""Read the recorded attempts of a step as evidence for `redrive.policy.what_if`."""

from __future__ import annotations

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
from redrive.store.rows import read_decision

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
"""Reasons of decisions that a retry policy made. For other reasons, the policy was not consulted."""


class Exclusion(StrEnum):
    """Why the attempts of a step are left out of the simulation."""

    NO_FAILURE = "no_failure"
    IN_PROGRESS = "in_progress"
    EXTERNAL = "external"


class StepFailures(NamedTuple):
    """The failures of a step before it first finished, and what followed.

    last_failed_at  the time of the last failure, including those in replays
    works           since when the step works, if it succeeded itself or in a replay with the same payload
    """

    failed_step: FailedStep
    last_failed_at: float
    works: Works | None

    @property
    def category(self) -> Category:
        return self.failed_step.failed[-1].failure.category

    @property
    def began(self) -> float:
        return self.failed_step.failed[0].started_at


def read_attempts(rows: Sequence[TriedRow], step: StepDefinition) -> StepFailures | Exclusion:
    """Read the ordered attempts of one step of one run. Attempts after it first finished are replays."""
    first, rest = _split_at_end(rows)
    if rows[0].reason == Reason.REPORTED:
        return Exclusion.EXTERNAL
    final = first[-1]
    success = _success(final, rows)
    if success is None and (final.delay is not None or final.outcome == AttemptOutcome.CANCELLED):
        return Exclusion.IN_PROGRESS
    failed = _failed(first, step)
    if not failed:
        return Exclusion.NO_FAILURE
    failed_step = FailedStep(failed, success, step.retry, step.effect is not Effect.UNSAFE)
    last = max([failed[-1].ended_at, *(row.ended_at for row in rest if row.outcome == AttemptOutcome.FAILED)])
    since = success if success is not None else _first_replayed_success(rest, rows[0])
    return StepFailures(failed_step, last, None if since is None else Works(since, Proof.ITSELF))


def _split_at_end(rows: Sequence[TriedRow]) -> tuple[Sequence[TriedRow], Sequence[TriedRow]]:
    for length, row in enumerate(rows, 1):
        if row.delay is None:
            return rows[:length], rows[length:]
    return rows, ()


def _success(final: TriedRow, rows: Sequence[TriedRow]) -> float | None:
    """Return the start of the attempt that succeeded without a replay.

    That attempt has a row only if a replay later went back to this step or an earlier one.
    """
    if final.outcome == AttemptOutcome.SUCCEEDED:
        return final.started_at or final.ended_at
    if final.delay is None or final is not rows[-1] or (final.success_number or 0) <= final.number:
        return None
    return final.success_started_at


def _first_replayed_success(rest: Sequence[TriedRow], first: TriedRow) -> float | None:
    """Return the start of the first replayed attempt that succeeded with the unchanged payload."""
    if first.edited:
        return None
    starts = [row.started_at or row.ended_at for row in rest if row.outcome == AttemptOutcome.SUCCEEDED]
    return min(starts, default=first.success_started_at)


def _failed(rows: Iterable[TriedRow], step: StepDefinition) -> tuple[Failed, ...]:
    """Return the failed attempts. A released or lost attempt counts only if the step ended with it."""
    found: list[Failed] = []
    hint: float | None = None
    for row in rows:
        if row.outcome == AttemptOutcome.SUCCEEDED or (
            row.outcome != AttemptOutcome.FAILED and row.delay is not None
        ):
            continue
        wait = _requested_wait(row, hint)
        hint = wait if row.reason == Reason.RATE_LIMIT_HINT else hint
        bound = row.outcome != AttemptOutcome.FAILED or row.reason not in _BY_POLICY
        bound = bound or (row.reason == Reason.RATE_LIMIT_WAITS_SPENT and wait is None)
        started = row.ended_at if row.started_at is None else row.started_at
        found.append(Failed(started, row.ended_at, row.delay, _failure(row, step, wait), bound))
    return tuple(found)


def _requested_wait(row: TriedRow, previous: float | None) -> float | None:
    """Return the wait that the server asked for.

    The wait that used up the budget is not recorded; return the previous one instead.
    """
    if row.reason == Reason.RATE_LIMIT_HINT:
        return row.delay
    if row.reason == Reason.RATE_LIMIT_WAITS_SPENT:
        return previous
    return None if row.decision is None else read_decision(row.decision).hint


def _failure(row: TriedRow, step: StepDefinition, wait: float | None) -> Failure:
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
        retry_after=wait,
        # The step was retried although its effect must not repeat, so the request was never executed.
        delivery=Delivery.NEVER_SEEN if row.delay is not None else Delivery.MAYBE_SEEN,
        explicit_class=_is_class_explicit(category, stored, row.reason),
    )


def _error_class(row: TriedRow) -> ErrorClass:
    if row.error_class is not None and row.error_class in _CLASSES:
        return ErrorClass(row.error_class)
    return ErrorClass.FINAL if row.delay is None else ErrorClass.RETRYABLE


def _is_class_explicit(category: Category, stored: ErrorClass, reason: str) -> bool:
    if category is Category.UNKNOWN:
        return reason == Reason.FINAL_ERROR
    return stored is not CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL)
