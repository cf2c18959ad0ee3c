"""Decides what a guarded call does next, for sync and async calls. The controller never waits itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redrive.calls.attempt import CURRENT, Attempt
from redrive.calls.dependency import Dependency
from redrive.calls.event import CallReporter
from redrive.calls.running_step import require_lease
from redrive.clock import Clock
from redrive.errors import DeferredError, InvalidValueError
from redrive.model.breaker import Permit
from redrive.model.decision import Explanation, Reason, Retry
from redrive.model.failure import Failure
from redrive.model.step import Effect
from redrive.policy.classify import Classifier
from redrive.policy.error_function import ErrorFunction, judged_by
from redrive.policy.retry import RetryPolicy, decide
from redrive.words.decision import REASONS
from redrive.words.number import plural

KeyOf = Callable[..., str | None]

MAX_FAILURES = 20
"""The maximum number of failures that a call keeps."""


@dataclass(slots=True, kw_only=True)
class CallController:
    operation: str
    policy: RetryPolicy
    timeout: float
    hard_timeout: bool
    deadline: float | None
    longest_wait: float
    effect: Effect
    key_of: KeyOf | str | None
    dependency: Dependency
    breaks: bool
    classifier: Classifier | None
    classify: ErrorFunction | None
    reporter: CallReporter
    clock: Clock
    random: Callable[[], float]

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
        """Return the first attempt. The deadline of an outer attempt applies to nested calls, too."""
        require_lease()
        key = self.key_of
        if callable(key):
            key = key(*args, **kwargs)
            key = None if key is None else usable_key(key)
        started = self.clock.monotonic()
        deadline = None if self.deadline is None else started + self.deadline
        outer = CURRENT.get()
        if outer is not None and not outer.over:
            deadline = self._within(outer, deadline)
        return self._attempt(1, key, started, deadline)

    def next(self, attempt: Attempt, error: Exception) -> Attempt | None:
        """Return the next attempt; None if the deadline passed or the breaker opened during the wait."""
        require_lease()
        now = self.clock.monotonic()
        late = attempt.deadline is not None and now >= attempt.deadline
        if late or (self.breaks and self.dependency.is_open_for(0.0)):
            failure = attempt.failures[-1]
            reason = Reason.DEADLINE if late else Reason.BREAKER_OPEN
            why = Explanation(reason, failure.rule, failure.category)
            self._give_up(attempt, now - attempt.started, failure, why, error)
            return None
        following = self._attempt(attempt.number + 1, attempt.idempotency_key, now, attempt.deadline)
        following.tally = attempt.tally
        following.failures = attempt.failures
        return following

    def succeeded(self, attempt: Attempt, permit: Permit | None) -> None:
        attempt.over = True
        if permit is not None:
            self.dependency.report_success(permit, attempt.started)
        self.dependency.give_back()
        if attempt.number > 1:
            self.reporter.recovered(attempt)

    def abandoned(self, attempt: Attempt, permit: Permit | None) -> None:
        """Release the permit of a cancelled or interrupted attempt, without counting a failure."""
        attempt.over = True
        if permit is not None:
            self.dependency.report_nothing(permit)

    def failed(self, attempt: Attempt, permit: Permit | None, error: Exception) -> float | None:
        """Return the wait before the next attempt; None if the caller gets the error."""
        attempt.over = True
        seconds = self.clock.monotonic() - attempt.started
        now = self.clock.now()
        failure = (self.classifier or self.dependency.classifier).classify(error, now=now)
        if self.classify is not None:
            failure = judged_by(self.classify, error, failure)
        if permit is not None:
            self.dependency.report_failure(permit, failure, attempt.started)
        repeatable = self.effect is not Effect.UNSAFE or attempt.idempotency_key is not None
        decision = decide(
            attempt.tally, failure, self.policy, now=now, draw=self.random(), repeatable=repeatable
        )
        attempt.failures = (*attempt.failures[1 - MAX_FAILURES :], failure)
        why = decision.explanation
        if not isinstance(decision, Retry):
            self._give_up(attempt, seconds, failure, why, error)
            return None
        reason = self._reason_to_stop(attempt, permit, decision.delay)
        if reason is None:
            attempt.tally = attempt.tally.after(decision)
            self.reporter.failed(attempt, seconds, failure, why, decision.delay)
            return decision.delay
        stopped = why._replace(reason=reason, wait=None, at=None)
        self._give_up(attempt, seconds, failure, stopped, error)
        if reason is Reason.TOO_LONG:
            raise self._deferred(decision.delay) from error
        return None

    def _within(self, outer: Attempt, deadline: float | None) -> float:
        """Return the earlier deadline. Raises an error if the outer attempt has no time left."""
        outer.check()
        limit = outer.expires_by(self.clock)
        return limit if deadline is None or limit < deadline else deadline

    def _attempt(self, number: int, key: str | None, started: float, deadline: float | None) -> Attempt:
        attempts = self.policy.max_attempts
        return Attempt(number, self.operation, attempts, key, started, self.timeout, deadline, self.clock)

    def _reason_to_stop(self, attempt: Attempt, permit: Permit | None, delay: float) -> Reason | None:
        """Check the limits outside the policy; the budget last, so that only actual retries are charged."""
        if delay > self.longest_wait:
            return Reason.TOO_LONG
        if attempt.deadline is not None and self.clock.monotonic() + delay >= attempt.deadline:
            return Reason.DEADLINE
        if permit is not None and self.dependency.is_open_for(delay):
            return Reason.BREAKER_OPEN
        return None if self.dependency.may_retry() else Reason.BUDGET_EMPTY

    def _deferred(self, delay: float) -> DeferredError:
        return DeferredError(
            f"{self.operation!r} may be tried again in {delay:.3g} s, which is longer than "
            f"longest_wait ({self.longest_wait:.3g} s)",
            retry_after=delay,
        )

    def _give_up(
        self, attempt: Attempt, seconds: float, failure: Failure, why: Explanation, error: Exception
    ) -> None:
        self.reporter.failed(attempt, seconds, failure, why, None)
        _add_note(error, attempt, why.reason)


def usable_key(key: object) -> str:
    """Reject keys by which a server could not recognize a repeated call."""
    if not isinstance(key, str) or not key or not key.isprintable():
        raise InvalidValueError(f"an idempotency key must be a printable, non-empty string, got {key!r}")
    return key


def _add_note(error: Exception, attempt: Attempt, reason: Reason) -> None:
    count = attempt.number
    first = count - len(attempt.failures) + 1
    lines = [f"redrive: {attempt.operation!r} failed after {plural(count, 'attempt')}: {REASONS[reason]}"]
    lines += [
        f"  attempt {number}: {failure.category} ({failure.rule})"
        for number, failure in enumerate(attempt.failures, start=first)
    ]
    note = "\n".join(lines)
    try:
        # The same object may be raised several times: by a future, or out of a cache.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    except BaseException:  # noqa: BLE001
        return
