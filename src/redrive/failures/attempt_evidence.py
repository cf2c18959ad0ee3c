"""Troubles: what the recorded attempts of a step tell, as values for `redrive.policy.what_if`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from redrive.engine.definition import StepDefinition
from redrive.model.attempt import AttemptOutcome
from redrive.model.decision import Reason
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.step import Effect
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.what_if import Failed, Proof, Trouble, Works
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
"""Why a policy decides as it does. Of other reasons it is not asked."""


class Left(StrEnum):
    """Why attempts tell nothing about a policy."""

    UNTROUBLED = "untroubled"
    UNDER_WAY = "under_way"
    FOREIGN = "foreign"


class Told(NamedTuple):
    """A trouble, and what followed it.

    last_failed_at  when it failed last, also in replays
    works           if it succeeded itself, or in a replay of the same payload
    """

    trouble: Trouble
    last_failed_at: float
    works: Works | None

    @property
    def category(self) -> Category:
        return self.trouble.failed[-1].failure.category

    @property
    def began(self) -> float:
        return self.trouble.failed[0].started_at


def told(rows: Sequence[TriedRow], step: StepDefinition) -> Told | Left:
    """What the attempts of one step of one run, in order, tell. Those after the first ending are replays."""
    first, rest = _until_ended(rows)
    if rows[0].reason == Reason.REPORTED:
        return Left.FOREIGN
    ended = first[-1]
    success = _success(ended, rows)
    if success is None and (ended.delay is not None or ended.outcome == AttemptOutcome.CANCELLED):
        return Left.UNDER_WAY
    failed = _failed(first, step)
    if not failed:
        return Left.UNTROUBLED
    trouble = Trouble(failed, success, step.retry, step.effect is not Effect.UNSAFE)
    last = max(
        [failed[-1].ended_at, *(each.ended_at for each in rest if each.outcome == AttemptOutcome.FAILED)]
    )
    since = success if success is not None else _replayed(rest, rows[0])
    return Told(trouble, last, None if since is None else Works(since, Proof.ITSELF))


def _until_ended(rows: Sequence[TriedRow]) -> tuple[Sequence[TriedRow], Sequence[TriedRow]]:
    for place, row in enumerate(rows, 1):
        if row.delay is None:
            return rows[:place], rows[place:]
    return rows, ()


def _success(ended: TriedRow, rows: Sequence[TriedRow]) -> float | None:
    """When the attempt started that succeeded without a replay. It is a row if one went back behind it."""
    if ended.outcome == AttemptOutcome.SUCCEEDED:
        return ended.started_at or ended.ended_at
    if ended.delay is None or ended is not rows[-1] or (ended.success_number or 0) <= ended.number:
        return None
    return ended.success_started_at


def _replayed(rest: Sequence[TriedRow], row: TriedRow) -> float | None:
    """When the first attempt of a replay started that succeeded with the payload as it was."""
    if row.edited:
        return None
    kept = [each.started_at or each.ended_at for each in rest if each.outcome == AttemptOutcome.SUCCEEDED]
    return min(kept, default=row.success_started_at)


def _failed(rows: Iterable[TriedRow], step: StepDefinition) -> tuple[Failed, ...]:
    """What was given back or lost did not fail, unless it ended so."""
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
    """The wait that a server has asked for; of one too many only those before are known."""
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
        # It was repeated although it must not be executed twice, so it cannot have been executed.
        delivery=Delivery.NEVER_SEEN if row.delay is not None else Delivery.MAYBE_SEEN,
        said=_said(category, stored, row.reason),
    )


def _error_class(row: TriedRow) -> ErrorClass:
    if row.error_class is not None and row.error_class in _CLASSES:
        return ErrorClass(row.error_class)
    return ErrorClass.FINAL if row.delay is None else ErrorClass.RETRYABLE


def _said(category: Category, stored: ErrorClass, reason: str) -> bool:
    if category is Category.UNKNOWN:
        return reason == Reason.FINAL_ERROR
    return stored is not CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL)
