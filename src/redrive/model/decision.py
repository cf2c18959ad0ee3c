"""What happens next to a step, as a value, with the reasons that led to it.

An instant is a number of seconds since 1970 (UTC); a duration is a number of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Protocol


class Reason(StrEnum):
    """Why a decision was taken: one word for machines, one sentence for people."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Reason:
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member

    SUCCEEDED = "succeeded", "the attempt succeeded"
    BACKOFF = "backoff", "trying again may help"
    RATE_LIMIT_HINT = "rate_limit_hint", "the server said when to come back; not counted as a failure"
    UNAVAILABLE = "unavailable", "the dependency was not asked; not counted as a failure"
    INTERRUPTED = "interrupted", "the attempt was interrupted; not counted as a failure"
    FINAL_ERROR = "final_error", "trying again cannot help"
    UNKNOWN_ERROR = "unknown_error", "no rule knows this error, and what is not known is not tried again"
    ATTEMPTS_SPENT = "attempts_spent", "all attempts are used up"
    RATE_LIMIT_WAITS_SPENT = "rate_limit_waits_spent", "rate-limited too often"
    HOLDS_SPENT = "holds_spent", "given back uncharged too often"
    NO_RETRIES = "no_retries", "the policy never retries"
    NOT_REPEATABLE = "not_repeatable", "it may have been executed, and must not be executed twice"
    DEADLINE = "deadline", "the next attempt would start after the deadline"
    BUDGET_EMPTY = "budget_empty", "the retry budget is used up"
    BREAKER_OPEN = "breaker_open", "the circuit breaker of the dependency has opened"
    LEASE_LOST = "lease_lost", "its worker died or was cut off; not counted as a failure"
    PROBE = "probe", "let through to see whether the dependency is back: it is not; not counted as a failure"
    WORKER_CRASHED = "worker_crashed", "its worker died again and again while executing it alone"
    DEFERRED = "deferred", "the task asked to be executed again later; not counted as a failure"
    UNKNOWN_TASK = "unknown_task", "no task of that name is registered here; not counted as a failure"
    CANCELLED = "cancelled", "the run was cancelled"
    REPORTED = "reported", "another system has reported that it failed"
    TOO_LONG = "too_long", "the wait is too long to sit through"


class Formula(Protocol):
    def describe(self, wait: Wait) -> str: ...


class Wait(NamedTuple):
    """A computed wait and everything needed to show how it was computed."""

    seconds: float
    planned: float
    draw: float
    low: float
    high: float
    failures: int
    formula: Formula

    def __str__(self) -> str:
        return self.formula.describe(self)


class Explanation(NamedTuple):
    """The story of a decision. Kept as numbers; the text is written when somebody asks for it."""

    reason: Reason
    rule: str = ""
    category: str = ""
    failures: int = 0
    max_attempts: int = 0
    wait: Wait | None = None
    hint: float | None = None
    at: float | None = None

    def __str__(self) -> str:
        return "; ".join(part for part in self._parts() if part)

    def _parts(self) -> list[str]:
        return [
            f"{self.category} (rule {self.rule})" if self.rule else "",
            self.reason.sentence,
            f"failure {self.failures}, at most {self.max_attempts} attempts" if self.failures else "",
            str(self.wait) if self.wait else "",
            f"the server asked for {self.hint:g} s" if self.hint is not None else "",
            f"due {format_instant(self.at)}" if self.at is not None else "",
        ]


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


def format_instant(instant: float) -> str:
    try:
        moment = datetime.fromtimestamp(instant, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{instant:g} s after 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
