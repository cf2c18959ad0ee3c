"""A step: one position in a run, with its attempts and their counters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from redrive.model.decision import NO_FACTS, Decision, Reason, Release, Retry, StoredDecision
from redrive.model.failure import Category, ErrorClass
from redrive.model.field import Instant, RunId
from redrive.model.row import Row
from redrive.model.transition import TransitionTable, moves


class StepState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCESS = "SUCCESS"
    DLQ = "DLQ"
    BLOCKED = "BLOCKED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Effect(StrEnum):
    """The effect of executing something twice on the outside world."""

    NONE = "none"
    IDEMPOTENT = "idempotent"
    UNSAFE = "unsafe"


_AGAIN = "~again~"
_FURTHER = re.compile(rf"{_AGAIN}[0-9a-f]{{32}}\Z")


def key_of_further_run(key: str, cause: str) -> str:
    """Return the idempotency key of a run that does the work of `key` once more.

    `cause` is the id of what asks for it. The runs have different keys, and their steps the same one.
    """
    return f"{key}{_AGAIN}{cause}"


def is_key_of_further_run(key: str) -> bool:
    return _AGAIN in key and _FURTHER.search(key) is not None


def step_key(org: str, run_id: str, idempotency_key: str | None, step_index: int) -> str:
    """Return an idempotency key that is the same for all attempts and replays of a step.

    Further runs of the same work have it, too. A run's idempotency key is unique only within its org, so the
    result includes the org, colons escaped.
    """
    if idempotency_key is None:
        return f"{run_id}:{step_index}"
    if is_key_of_further_run(idempotency_key):
        idempotency_key = _FURTHER.sub("", idempotency_key)
    return f"{org.replace(':', '%3A')}:{idempotency_key}:{step_index}"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counters of a step before the current attempt.

    `failures` counts towards the retry budget. Waits for a rate limit, a breaker or a lost lease do not: each
    kind has its own counter and its own limit.
    """

    failures: int = 0
    rate_limit_waits: int = 0
    holds: int = 0
    previous_delay: float | None = None

    def after(self, decision: Decision) -> Tally:
        """Return the counters after the decision has been applied."""
        if isinstance(decision, Release):
            return Tally(self.failures, self.rate_limit_waits, self.holds + 1, self.previous_delay)
        if not isinstance(decision, Retry):
            return self
        if decision.counted:
            return Tally(self.failures + 1, self.rate_limit_waits, self.holds, decision.delay)
        return Tally(self.failures, self.rate_limit_waits + 1, self.holds, self.previous_delay)


_P, _R, _W = StepState.PENDING, StepState.RUNNING, StepState.RETRYING
_STOPPED = (StepState.DLQ, StepState.BLOCKED)

STEP_TRANSITIONS = TransitionTable(
    "step",
    _P,
    [
        *moves("claimed", [_P, _W], [_R]),
        *moves("succeeded", [_R], [StepState.SUCCESS]),
        *moves("failed, will be retried", [_R], [_W]),
        *moves("became a dead letter", [_R], [StepState.DLQ]),
        *moves("blocked", [_R], [StepState.BLOCKED]),
        *moves("failed permanently", [_R], [StepState.FAILED]),
        *moves("released without counting a failure", [_R], [_P]),
        *moves("replayed", [*_STOPPED, StepState.FAILED, StepState.SUCCESS], [_P]),
        *moves("cancelled", [_P, _R, _W, *_STOPPED], [StepState.CANCELLED]),
    ],
)


class FinishedStep(Row, frozen=True, kw_only=True):
    """A step that succeeded. The database sets `ended_at`."""

    run_id: RunId
    step_index: int
    name: str
    task: str
    state: StepState
    output: str | None
    attempts: int
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None = None


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    LOST = "lost"
    CANCELLED = "cancelled"


class AttemptRecord(Row, frozen=True, kw_only=True):
    """An attempt: one execution of a step.

    delay     the wait after it, in seconds; None: no further attempt
    decision  why it was decided
    """

    run_id: RunId
    step_index: int
    number: int
    outcome: AttemptOutcome
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None = None
    reason: Reason
    delay: float | None = None
    category: Category | None = None
    error_class: ErrorClass | None = None
    error_type: str | None = None
    message: str | None = None
    stack: str | None = None
    http_status: int | None = None
    public_code: str | None = None
    public_message: str | None = None
    replay: int = 0
    output: str | None = None
    decision: StoredDecision = NO_FACTS
