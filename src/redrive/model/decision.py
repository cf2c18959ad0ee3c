"""Decisions: what happens next to a step, as a value, with the facts that led to it.

An instant is a number of seconds since 1970 (UTC); a duration is a number of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol

import msgspec

from redrive.model.failure import PayloadMismatch
from redrive.model.field import Instant


class Reason(StrEnum):
    """Why a decision was taken. `redrive.words.decision` has the sentence for each."""

    SUCCEEDED = "succeeded"
    BACKOFF = "backoff"
    RATE_LIMIT_HINT = "rate_limit_hint"
    UNAVAILABLE = "unavailable"
    INTERRUPTED = "interrupted"
    FINAL_ERROR = "final_error"
    UNKNOWN_ERROR = "unknown_error"
    ATTEMPTS_SPENT = "attempts_spent"
    RATE_LIMIT_WAITS_SPENT = "rate_limit_waits_spent"
    HOLDS_SPENT = "holds_spent"
    NO_RETRIES = "no_retries"
    NOT_REPEATABLE = "not_repeatable"
    DEADLINE = "deadline"
    BUDGET_EMPTY = "budget_empty"
    BREAKER_OPEN = "breaker_open"
    LEASE_LOST = "lease_lost"
    PROBE = "probe"
    WORKER_CRASHED = "worker_crashed"
    DEFERRED = "deferred"
    UNKNOWN_TASK = "unknown_task"
    CANCELLED = "cancelled"
    REPORTED = "reported"
    NOT_STORED = "not_stored"
    TOO_LONG = "too_long"


class Formula(Protocol):
    """The formula of a wait, in mathematical notation."""

    def formula(self, failures: int) -> str: ...

    @property
    def jitter_notation(self) -> str: ...


class Wait(NamedTuple):
    """A computed wait and everything needed to show how it was computed."""

    seconds: float
    planned: float
    draw: float
    low: float
    high: float
    failures: int
    backoff: Formula


class DecisionFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of a decision, as an attempt stores them.

    code          the reason
    rule          the rule that recognized the error
    failures      failures so far that count towards `max_attempts`
    seconds       the computed wait: a point between `low` and `high` that `draw`, from 0 to 1, has picked
    planned       the wait before jitter, by `formula`
    hint          the seconds that the server asked for
    due_at        when the next attempt is due
    text          a sentence that an earlier version stored instead of facts
    mismatch      the fields of a payload that the task could not read
    """

    code: str
    category: str = ""
    rule: str = ""
    failures: int = 0
    max_attempts: int = 0
    seconds: float | None = None
    planned: float | None = None
    low: float | None = None
    high: float | None = None
    draw: float | None = None
    formula: str = ""
    jitter: str = ""
    hint: float | None = None
    due_at: Instant | None = None
    text: str = ""
    mismatch: PayloadMismatch | None = None


NO_FACTS = DecisionFacts("")

StoredDecision = Annotated[DecisionFacts, "text"]
"""Read from JSON; a row that is to be written holds the text."""


class Explanation(NamedTuple):
    """Why a decision was taken. `redrive.words.decision` renders its facts.

    hint  the seconds that the server asked for
    at    when the next attempt is due
    """

    reason: Reason
    rule: str = ""
    category: str = ""
    failures: int = 0
    max_attempts: int = 0
    wait: Wait | None = None
    hint: float | None = None
    at: float | None = None
    mismatch: PayloadMismatch | None = None

    def facts(self) -> DecisionFacts:
        wait = self.wait
        if wait is None:
            return DecisionFacts(
                self.reason.value,
                self.category,
                self.rule,
                self.failures,
                self.max_attempts,
                hint=self.hint,
                due_at=self.at,
                mismatch=self.mismatch,
            )
        return DecisionFacts(
            self.reason.value,
            self.category,
            self.rule,
            self.failures,
            self.max_attempts,
            wait.seconds,
            wait.planned,
            wait.low,
            wait.high,
            wait.draw,
            wait.backoff.formula(wait.failures),
            wait.backoff.jitter_notation,
            self.hint,
            self.at,
            mismatch=self.mismatch,
        )


@dataclass(frozen=True, slots=True)
class Complete:
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Retry:
    """Execute again at `at`, which is `delay` seconds from now. `counted`: it used up one attempt."""

    at: float
    delay: float
    counted: bool
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Release:
    """Give the step back untouched, due at `at`: the attempt does not count."""

    at: float
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Bury:
    """Nothing more can be done automatically: the step becomes a dead letter."""

    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Block:
    """As Bury, and the step blocks its run until a person decides."""

    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Fail:
    """As Bury, and the run has failed."""

    explanation: Explanation


Decision = Complete | Retry | Release | Bury | Block | Fail
