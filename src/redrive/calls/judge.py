"""The judge of a guarded call: everything that decides, for sync and async calls alike. It never waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redrive.calls import log
from redrive.calls.attempt import CURRENT, Attempt
from redrive.calls.dependency import Dependency
from redrive.calls.event import AttemptFailed, CallEvent, CallRecovered
from redrive.clock import Clock
from redrive.errors import DeferredError, InvalidValueError
from redrive.model.breaker import Permit
from redrive.model.decision import Decision, Explanation, Reason, Retry
from redrive.model.failure import Failure
from redrive.model.step import Effect, Tally
from redrive.policy.classify import Classifier
from redrive.policy.retry import RetryPolicy, decide

KeyOf = Callable[..., str | None]
Hook = Callable[[CallEvent], object]

MOST_FAILURES = 20
"""A call that is tried again for days remembers its last failures only."""


@dataclass(slots=True, kw_only=True)
class Judge:
    operation: str
    policy: RetryPolicy
    timeout: float
    deadline: float | None
    longest_wait: float
    effect: Effect
    key_of: KeyOf | str | None
    dependency: Dependency
    breaks: bool
    classifier: Classifier | None
    fields: Mapping[str, Any]
    hooks: tuple[Hook, ...]
    clock: Clock
    random: Callable[[], float]

    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
        """The first attempt. A call inside another guarded call never outlives the attempt around it."""
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
        """The attempt after a failed one; None when the wait ended too late, or others opened the breaker."""
        now = self.clock.monotonic()
        late = attempt.deadline is not None and now >= attempt.deadline
        if late or (self.breaks and self.dependency.is_open_for(0.0)):
            failure = attempt.failures[-1]
            why = Explanation(
                Reason.DEADLINE if late else Reason.BREAKER_OPEN, failure.rule, failure.category
            )
            self._give_up(attempt, now - attempt.started, failure, why, why.reason, error)
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
        if attempt.number > 1 and self._is_heard(alarming=False):
            self._tell(self._recovered(attempt), alarming=False)

    def abandoned(self, attempt: Attempt, permit: Permit | None) -> None:
        """Cancelled or interrupted: that is nobody's failure."""
        attempt.over = True
        if permit is not None:
            self.dependency.report_nothing(permit)

    def failed(self, attempt: Attempt, permit: Permit | None, error: Exception) -> float | None:
        """How long to wait before the next attempt; None: there is none, and the error is the caller's."""
        attempt.over = True
        seconds = self.clock.monotonic() - attempt.started
        now = self.clock.now()
        failure = (self.classifier or self.dependency.classifier).classify(error, now=now)
        if permit is not None:
            self.dependency.report_failure(permit, failure, attempt.started)
        decision = decide(attempt.tally, failure, self.policy, now=now, draw=self.random())
        reason = self._reason_to_stop(attempt, permit, failure, decision)
        attempt.failures = (*attempt.failures[1 - MOST_FAILURES :], failure)
        why = decision.explanation
        if reason is None and isinstance(decision, Retry):
            attempt.tally = _after(attempt.tally, decision)
            self._tell_failed(attempt, seconds, failure, why, why.reason, decision.delay)
            return decision.delay
        self._give_up(attempt, seconds, failure, why, reason or why.reason, error)
        if reason is Reason.TOO_LONG and isinstance(decision, Retry):
            raise self._deferred(decision.delay) from error
        return None

    def _within(self, outer: Attempt, deadline: float | None) -> float:
        """The deadline inside of another attempt, which must have time left."""
        outer.check()
        limit = outer.expires_by(self.clock)
        return limit if deadline is None or limit < deadline else deadline

    def _attempt(self, number: int, key: str | None, started: float, deadline: float | None) -> Attempt:
        attempts = self.policy.max_attempts
        return Attempt(number, self.operation, attempts, key, started, self.timeout, deadline, self.clock)

    def _reason_to_stop(
        self, attempt: Attempt, permit: Permit | None, failure: Failure, decision: Decision
    ) -> Reason | None:
        """What a call respects beyond the policy. The budget comes last: only a real retry is charged."""
        if not isinstance(decision, Retry):
            return decision.explanation.reason
        if self.effect is Effect.UNSAFE and attempt.idempotency_key is None and failure.may_have_executed:
            return Reason.NOT_REPEATABLE
        if decision.delay > self.longest_wait:
            return Reason.TOO_LONG
        if attempt.deadline is not None and self.clock.monotonic() + decision.delay >= attempt.deadline:
            return Reason.DEADLINE
        if permit is not None and self.dependency.is_open_for(decision.delay):
            return Reason.BREAKER_OPEN
        return None if self.dependency.may_retry() else Reason.BUDGET_EMPTY

    def _deferred(self, delay: float) -> DeferredError:
        return DeferredError(
            f"{self.operation!r} may be tried again in {delay:.3g} s, which is longer than "
            f"longest_wait ({self.longest_wait:.3g} s)",
            retry_after=delay,
        )

    def _recovered(self, attempt: Attempt) -> CallRecovered:
        seconds = self.clock.monotonic() - attempt.started
        key = attempt.idempotency_key
        return CallRecovered(self.operation, attempt.number, attempt.max_attempts, key, seconds)

    def _give_up(
        self,
        attempt: Attempt,
        seconds: float,
        failure: Failure,
        why: Explanation,
        reason: Reason,
        error: Exception,
    ) -> None:
        if why.reason is not reason:
            why = why._replace(reason=reason, wait=None, at=None)
        self._tell_failed(attempt, seconds, failure, why, reason, None)
        _add_note(error, self.operation, attempt, reason)

    def _tell_failed(
        self,
        attempt: Attempt,
        seconds: float,
        failure: Failure,
        why: Explanation,
        reason: Reason,
        wait: float | None,
    ) -> None:
        # A call that an open breaker did not let through is expected; it must not flood the log in an outage.
        alarming = wait is None and not failure.unavailable
        if not self._is_heard(alarming=alarming):
            return
        event = AttemptFailed(
            self.operation,
            attempt.number,
            attempt.max_attempts,
            attempt.idempotency_key,
            seconds,
            failure,
            reason,
            why,
            wait,
        )
        self._tell(event, alarming=alarming)

    def _is_heard(self, *, alarming: bool) -> bool:
        return bool(self.hooks) or log.is_wanted(alarming=alarming)

    def _tell(self, event: CallEvent, *, alarming: bool) -> None:
        """Nothing that listens can harm the call."""
        if log.is_wanted(alarming=alarming):
            log.write(event, self.fields, alarming=alarming)
        for hook in self.hooks:
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001
                log.complain(event.operation, hook, error)


def usable_key(key: object) -> str:
    """With anything else, an unsafe call would be repeated and nobody could recognise the repetition."""
    if not isinstance(key, str) or not key or not key.isprintable():
        raise InvalidValueError(f"an idempotency key must be a text without control characters, got {key!r}")
    return key


def _after(tally: Tally, decision: Retry) -> Tally:
    if decision.counted:
        return Tally(tally.failures + 1, tally.rate_limit_waits, tally.holds, decision.delay)
    return Tally(tally.failures, tally.rate_limit_waits + 1, tally.holds, tally.previous_delay)


def _add_note(error: Exception, operation: str, attempt: Attempt, reason: Reason) -> None:
    count = attempt.number
    first = count - len(attempt.failures) + 1
    lines = [f"redrive: {operation!r} failed after {count} attempt{'s' * (count > 1)}: {reason.sentence}"]
    lines += [
        f"  attempt {number}: {failure.category} ({failure.rule})"
        for number, failure in enumerate(attempt.failures, start=first)
    ]
    note = "\n".join(lines)
    try:
        # One and the same object may be raised again and again: by a future, or out of a cache.
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    except BaseException:  # noqa: BLE001
        return
