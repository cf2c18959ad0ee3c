"""The retry decision: from the tally so far and the outcome of an attempt to the next action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from redrive.model.decision import (
    Block,
    Bury,
    Complete,
    Decision,
    Explanation,
    Fail,
    Reason,
    Release,
    Retry,
    Wait,
)
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.model.step import Tally
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import choice, require_kind, require_list, require_whole
from redrive.policy.retry_after import LONGEST_HINT
from redrive.policy.schedule import Schedule

NOT_ASKED_DELAY = 1.0
"""Seconds until work is retried whose dependency was not called and gave no time for a retry."""


class Ending(StrEnum):
    """The state of a step that is not retried any further."""

    BURY = "bury"
    BLOCK = "block"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, how long apart, and after which failures to retry. `max_attempts` counts all executions."""

    name: str = "custom"
    max_attempts: int
    backoff: Backoff
    backoff_by_category: Mapping[Category, Backoff] = field(default_factory=lambda: MappingProxyType({}))
    also_retry: frozenset[Category] = frozenset()
    never_retry: frozenset[Category] = frozenset()
    max_rate_limit_waits: int = 100
    max_holds: int = 10_000
    ending: Ending = Ending.BURY

    def __post_init__(self) -> None:
        require_kind("backoff", self.backoff, Backoff)
        object.__setattr__(self, "backoff_by_category", _backoffs(self.backoff_by_category))
        for name in ("also_retry", "never_retry"):
            object.__setattr__(self, name, _categories(name, getattr(self, name)))
        require_whole("max_attempts", self.max_attempts, 1, 1_000_000)
        require_whole("max_rate_limit_waits", self.max_rate_limit_waits, 0, 1_000_000)
        require_whole("max_holds", self.max_holds, 0, 1_000_000_000)
        object.__setattr__(self, "ending", choice("ending", self.ending, Ending))

    @property
    def max_retries(self) -> int:
        """The maximum number of executions after the first."""
        return self.max_attempts - 1

    def retries(self, failure: Failure) -> bool:
        """Return whether the policy ever retries after such a failure."""
        if failure.category in self.never_retry:
            return False
        return failure.retryable or (failure.category in self.also_retry and not failure.explicit_class)

    def backoff_for(self, category: Category) -> Backoff:
        return self.backoff_by_category.get(category, self.backoff)

    def explain(self) -> Schedule:
        """Return the schedule of all attempts, with their earliest, typical and latest times. Print it."""
        return Schedule.of(self.name, self.max_attempts, self.backoff)


def _backoffs(by_category: Mapping[Category, Backoff]) -> Mapping[Category, Backoff]:
    name = "backoff_by_category"
    require_kind(name, by_category, Mapping)
    for backoff in by_category.values():
        require_kind(name, backoff, Backoff)
    return MappingProxyType({choice(name, word, Category): each for word, each in by_category.items()})


def _categories(name: str, words: Iterable[str]) -> frozenset[Category]:
    require_list(name, words, "categories")
    return frozenset(choice(name, word, Category) for word in words)


def decide(
    tally: Tally,
    failure: Failure | None,
    policy: RetryPolicy,
    *,
    now: float,
    draw: float,
    repeatable: bool = True,
    longest_hint: float = LONGEST_HINT,
) -> Decision:
    """Decide what happens after an attempt; `failure` is None if it succeeded.

    `draw` is a random number from 0 to 1, `now` the time when the attempt ended. Work that is not
    `repeatable` is repeated only if the failed attempt cannot have had a side effect. A server that asks for
    a wait of more than `longest_hint` seconds gets those.
    """
    if failure is None:
        return Complete(Explanation(Reason.SUCCEEDED))
    if failure.retry_after is not None and failure.retry_after > longest_hint:
        failure = failure._replace(retry_after=longest_hint)
    if not repeatable and failure.may_have_executed:
        return _not_repeated(decide(tally, failure, policy, now=now, draw=draw), policy)
    if failure.category is Category.CANCELLED:
        return _release(Reason.INTERRUPTED, tally, failure, policy, now)
    if failure.unavailable:
        wait = NOT_ASKED_DELAY if failure.retry_after is None else failure.retry_after
        return _release(Reason.UNAVAILABLE, tally, failure, policy, now + wait)
    if not policy.retries(failure):
        unknown = failure.category is Category.UNKNOWN and not failure.explicit_class
        return end(Reason.UNKNOWN_ERROR if unknown else Reason.FINAL_ERROR, tally, failure, policy)
    if failure.error_class is ErrorClass.RATE_LIMITED and failure.retry_after is not None:
        return _wait_for_rate_limit(tally, failure, failure.retry_after, policy, now)
    return _back_off(tally, failure, policy, now, draw)


def next_retry_at(
    tally: Tally, failure: Failure, policy: RetryPolicy, *, now: float, draw: float
) -> float | None:
    """Return when the work is due again; None if it is not retried."""
    decision = decide(tally, failure, policy, now=now, draw=draw)
    return decision.at if isinstance(decision, Retry | Release) else None


def _not_repeated(decision: Decision, policy: RetryPolicy) -> Decision:
    """Replace a repetition by an ending, except for work that did not call its dependency."""
    why = decision.explanation
    if not isinstance(decision, Retry | Release) or why.reason is Reason.UNAVAILABLE:
        return decision
    return _ending(policy, why._replace(reason=Reason.NOT_REPEATABLE, wait=None, at=None))


def _release(reason: Reason, tally: Tally, failure: Failure, policy: RetryPolicy, at: float) -> Decision:
    if tally.holds >= policy.max_holds:
        return end(Reason.HOLDS_SPENT, tally, failure, policy)
    return Release(at, _explain(reason, tally, failure, policy, at=at))


def _wait_for_rate_limit(
    tally: Tally, failure: Failure, hint: float, policy: RetryPolicy, now: float
) -> Decision:
    if tally.rate_limit_waits >= policy.max_rate_limit_waits:
        return end(Reason.RATE_LIMIT_WAITS_SPENT, tally, failure, policy)
    at = now + hint
    why = _explain(Reason.RATE_LIMIT_HINT, tally, failure, policy, at=at, hint=hint)
    return Retry(at, hint, counted=False, explanation=why)


def _back_off(tally: Tally, failure: Failure, policy: RetryPolicy, now: float, draw: float) -> Decision:
    failures = tally.failures + 1
    if failures >= policy.max_attempts:
        return end(Reason.ATTEMPTS_SPENT, tally, failure, policy)
    wait = policy.backoff_for(failure.category).wait(failures, draw=draw, previous=tally.previous_delay)
    if wait is None:
        return end(Reason.NO_RETRIES, tally, failure, policy)
    # A server in trouble may ask for more time than the formula gives (503 with Retry-After).
    hint = failure.retry_after
    delay = wait.seconds if hint is None else max(wait.seconds, hint)
    at = now + delay
    why = _explain(Reason.BACKOFF, tally, failure, policy, wait=wait, hint=hint, at=at)
    return Retry(at, delay, counted=True, explanation=why)


def end(reason: Reason, tally: Tally, failure: Failure, policy: RetryPolicy) -> Decision:
    """End the automatic retries; the policy chooses the state of the step."""
    return _ending(policy, _explain(reason, tally, failure, policy))


def _ending(policy: RetryPolicy, why: Explanation) -> Decision:
    if policy.ending is Ending.BLOCK:
        return Block(why)
    if policy.ending is Ending.FAIL:
        return Fail(why)
    return Bury(why)


def _explain(
    reason: Reason,
    tally: Tally,
    failure: Failure,
    policy: RetryPolicy,
    *,
    wait: Wait | None = None,
    hint: float | None = None,
    at: float | None = None,
) -> Explanation:
    counted = reason not in _UNCOUNTED
    failures = tally.failures + 1 if counted else tally.failures
    return Explanation(
        reason,
        failure.rule,
        failure.category,
        failures,
        policy.max_attempts,
        wait,
        hint,
        at,
        failure.mismatch,
    )


_UNCOUNTED = frozenset(
    {
        Reason.RATE_LIMIT_HINT,
        Reason.RATE_LIMIT_WAITS_SPENT,
        Reason.UNAVAILABLE,
        Reason.INTERRUPTED,
        Reason.HOLDS_SPENT,
        Reason.WORKER_CRASHED,
    }
)
