"""Dependencies: the services a program calls, each with one breaker and one retry budget.

A name means the same dependency everywhere in the process, so all calls to it share one breaker and budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar, cast

from redrive.callables import is_async
from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.duration import Seconds, to_seconds
from redrive.errors import BreakerOpenError, InvalidValueError
from redrive.model.breaker import BreakerSnapshot, CallOutcome, Permit, Refusal
from redrive.model.failure import Failure
from redrive.policy.bounds import require_kind
from redrive.policy.breaker import Breaker, outcome_of
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.budget import Budget, BudgetPolicy
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier

P = ParamSpec("P")
R = TypeVar("R")

_SUCCEEDED, _NOTHING = CallOutcome.SUCCEEDED, CallOutcome.NOTHING


class Dependency:
    """A service that the program calls. As a decorator, it guards a function with the breaker; no retries."""

    def __init__(
        self,
        name: str,
        *,
        breaker: BreakerPolicy | None = None,
        budget: BudgetPolicy | None = None,
        classifier: Classifier = DEFAULT_CLASSIFIER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = name
        self._clock = clock
        self._lock = Lock()
        self.configure(breaker, budget, classifier)

    def configure(
        self, breaker: BreakerPolicy | None, budget: BudgetPolicy | None, classifier: Classifier
    ) -> None:
        """Reset the breaker and the budget to these policies."""
        with self._lock:
            self._breaker = Breaker(breaker)
            self._budget = Budget(budget)
            self.classifier = classifier

    def __repr__(self) -> str:
        return f"<Dependency {self.name!r}: breaker {self.snapshot().state}>"

    def admit(self) -> Permit:
        """Return a permit for one call, or raise BreakerOpenError."""
        permit = self._breaker.closed_permit
        if permit is not None:
            return permit
        with self._lock:
            admission = self._breaker.admit(self._clock.monotonic())
        if isinstance(admission, Refusal):
            state = "is half-open and being probed" if admission.probing else "is open"
            raise BreakerOpenError(
                self.name,
                f"the circuit breaker of {self.name!r} {state}; next try in {admission.retry_after:.3g} s",
                retry_after=admission.retry_after,
            )
        return admission

    def report_success(self, permit: Permit, started: float) -> None:
        ended = self._clock.monotonic()
        with self._lock:
            self._breaker.report(permit, _SUCCEEDED, ended, ended - started)

    def report_failure(self, permit: Permit, failure: Failure, started: float) -> None:
        ended = self._clock.monotonic()
        with self._lock:
            self._breaker.report(permit, outcome_of(failure), ended, ended - started, failure.retry_after)

    def report_nothing(self, permit: Permit) -> None:
        """Release the permit of a cancelled call without counting the call."""
        with self._lock:
            self._breaker.report(permit, _NOTHING, self._clock.monotonic())

    def is_open_for(self, seconds: Seconds) -> bool:
        """Check whether the breaker will still be open in that many seconds."""
        seconds = to_seconds(seconds)
        with self._lock:
            open_until = self._breaker.snapshot(self._clock.monotonic()).open_until
            return open_until is not None and open_until > self._clock.monotonic() + seconds

    def may_retry(self) -> bool:
        with self._lock:
            return self._budget.take()

    def give_back(self) -> None:
        budget = self._budget
        if budget.tokens < budget.policy.capacity:
            with self._lock:
                budget.give_back()

    @property
    def retry_tokens(self) -> float:
        return self._budget.tokens

    def snapshot(self) -> BreakerSnapshot:
        with self._lock:
            return self._breaker.snapshot(self._clock.monotonic())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if is_async(function):
            guarded = self._guard_async(cast("Callable[P, Awaitable[object]]", function))
            return cast("Callable[P, R]", guarded)
        return self._guard_sync(function)

    def _guard_sync(self, function: Callable[P, R]) -> Callable[P, R]:
        clock = self._clock

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            permit = self.admit()
            started = clock.monotonic()
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self._report_error(permit, error, started)
                raise
            self.report_success(permit, started)
            return result

        return guarded

    def _guard_async(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        clock = self._clock

        @wraps(function)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            permit = self.admit()
            started = clock.monotonic()
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                self._report_error(permit, error, started)
                raise
            self.report_success(permit, started)
            return result

        return guarded

    def _report_error(self, permit: Permit, error: BaseException, started: float) -> None:
        self.report_failure(permit, self.classifier.classify(error, now=self._clock.now()), started)


class Dependencies:
    """The dependencies of a process. A name returns the same object before and after it is configured.

    Operations without a dependency have a separate table: their names are often generated at run time, and
    must not evict a dependency together with the state of its breaker.
    """

    MAX_UNCONFIGURED = 1024

    def __init__(self) -> None:
        self._configured: dict[str, Dependency] = {}
        self._others: dict[str, Dependency] = {}
        self._operations: dict[str, Dependency] = {}
        self._settings: dict[str, tuple[BreakerPolicy | None, BudgetPolicy | None, Classifier]] = {}
        self._lock = Lock()

    def configure(
        self, name: str, breaker: BreakerPolicy | None, budget: BudgetPolicy | None, classifier: Classifier
    ) -> Dependency:
        require_kind("the name of a dependency", name, str)
        settings = (breaker, budget, classifier)
        with self._lock:
            known = self._configured.get(name)
            if known is not None:
                return self._same(known, settings)
            known = self._others.pop(name, None) or self._operations.pop(name, None) or Dependency(name)
            self._configured[name] = known
            self._settings[name] = settings
        known.configure(*settings)
        return known

    def _same(self, known: Dependency, settings: tuple[object, ...]) -> Dependency:
        if settings != self._settings[known.name]:
            raise InvalidValueError(
                f"the dependency {known.name!r} already has other settings; configure it once, "
                f"at start-up, and use its name elsewhere"
            )
        return known

    def forget(self) -> None:
        """Close all breakers and fill all budgets. Keep the configured policies."""
        with self._lock:
            for known in (*self._others.values(), *self._operations.values()):
                known.configure(None, None, DEFAULT_CLASSIFIER)
            for name, known in self._configured.items():
                known.configure(*self._settings[name])

    def get(self, name: str) -> Dependency:
        """Return the dependency with this name; it has the default policies unless it was configured.

        Names generated at run time cannot fill the memory: the oldest unconfigured dependencies are dropped.
        """
        return self._configured.get(name) or self._others.get(name) or self._make(name, self._others)

    def of_operation(self, name: str) -> Dependency:
        """Return the dependency with the retry budget of an operation that names no dependency."""
        return self._configured.get(name) or self._operations.get(name) or self._make(name, self._operations)

    def _make(self, name: str, among: dict[str, Dependency]) -> Dependency:
        with self._lock:
            known = self._configured.get(name) or among.get(name)  # another thread may have created it
            if known is not None:
                return known
            if len(among) >= self.MAX_UNCONFIGURED:
                del among[next(iter(among))]
            new = among[name] = Dependency(name)
            return new


DEPENDENCIES = Dependencies()


def dependency(
    name: str,
    *,
    breaker: BreakerPolicy | None = None,
    budget: BudgetPolicy | None = None,
    classifier: Classifier = DEFAULT_CLASSIFIER,
) -> Dependency:
    """Configure the breaker and budget of a dependency at start-up. Repeating the call changes nothing."""
    return DEPENDENCIES.configure(name, breaker, budget, classifier)
