"""Guarded calls, with timeouts, classification and retries: `Guard`, `@retry` and `call`."""

from __future__ import annotations

import random as dice
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import update_wrapper
from types import EllipsisType
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from redrive.callables import is_async, name_of
from redrive.calls.attempt import CURRENT, Attempt
from redrive.calls.block import Attempts
from redrive.calls.call_policy import DEFAULT_TIMEOUT, call_policy
from redrive.calls.controller import CallController, KeyOf, usable_key
from redrive.calls.dependency import DEPENDENCIES, Dependency
from redrive.calls.drive import drive, drive_async
from redrive.calls.event import CallReporter, Hook
from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.duration import Seconds
from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require_kind, require_seconds
from redrive.policy.classify import Classifier
from redrive.policy.error_function import ErrorFunction
from redrive.policy.presets import CALL
from redrive.policy.retry import RetryPolicy
from redrive.words.suggestion import suggest

EffectWord = Literal["none", "idempotent", "unsafe"]


class CallOptions(TypedDict, total=False):
    """Options of both guards and HTTP clients; see `Guard`."""

    policy: RetryPolicy | Mapping[str, Any]
    max_attempts: int | None
    backoff: Backoff | None
    timeout: Seconds
    deadline: Seconds | None
    longest_wait: Seconds
    dependency: Dependency | str | None
    classifier: Classifier | None
    classify: ErrorFunction | None
    hooks: Iterable[Hook]


class GuardOptions(CallOptions, total=False):
    """All options of `Guard`."""

    hard_timeout: bool
    effect: Effect | EffectWord
    idempotency_key: KeyOf | str | None
    fields: Mapping[str, Any] | None
    clock: Clock
    random: Callable[[], float]


def names_of(options: type) -> list[str]:
    """List the names of the options in a TypedDict."""
    return sorted(options.__optional_keys__)  # type: ignore[attr-defined]


def reject_unknown(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError for an unknown option and suggest a known one."""
    names = names_of(known)
    for name in options:
        if name not in names:
            raise TypeError(f"unknown option {name!r}; {suggest(name, names)}")


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any] | None)


class Guard:
    """Calls of one operation, with retries by a policy, a timeout for each attempt, and classified errors.

    policy           the number of attempts and the delays; default: redrive.policy.CALL, 3 attempts. A dict
                     changes only what it names: max_attempts, base_delay_ms, factor, max_delay_ms, jitter
                     (a bool), timeout_ms
    max_attempts     override the policy's total number of attempts
    backoff          override the policy's delays
    timeout          seconds for one attempt, 10 by default; cancels async functions; a sync function that
                     returns later has failed
    hard_timeout     run a sync function in a helper thread and raise the timeout on time; the thread goes on
    deadline         seconds for the whole call, including waits; no attempt or wait goes beyond it
    longest_wait     a longer wait raises DeferredError instead of sleeping; default: 60 s
    effect           "unsafe": an attempt that may have executed is retried only with an idempotency key
    idempotency_key  the key, or a function of the call's arguments; your function must send it
    dependency       its breaker and retry budget guard the call; without it, the operation has its own budget
    classifier       decides what an error means, also for the breaker; default: the dependency's
    classify         a function that takes the error and returns "retry", "fail", a category, an error class,
                     or None to leave the decision to the classifier
    fields           additional fields for all log lines
    hooks            functions that receive AttemptFailed and CallRecovered
    clock, random    the sources of time and randomness, for tests

    A duration is a number of seconds or a timedelta.
    """

    def __init__(
        self,
        operation: str,
        *,
        policy: RetryPolicy | Mapping[str, Any] = CALL,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: Seconds | EllipsisType = ...,
        hard_timeout: bool = False,
        deadline: Seconds | None = None,
        longest_wait: Seconds = 60.0,
        effect: Effect | EffectWord = Effect.IDEMPOTENT,
        idempotency_key: KeyOf | str | None = None,
        dependency: Dependency | str | None = None,
        classifier: Classifier | None = None,
        classify: ErrorFunction | None = None,
        fields: Mapping[str, Any] | None = None,
        hooks: Iterable[Hook] = (),
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] = dice.random,
    ) -> None:
        require_kind("operation", operation, str)
        require_kind("policy", policy, RetryPolicy, Mapping)
        require_kind("hard_timeout", hard_timeout, bool)
        require_kind("classifier", classifier, Classifier, type(None))
        require_kind("dependency", dependency, Dependency, str, type(None))
        if isinstance(policy, Mapping):
            policy, seconds = call_policy(policy)
            timeout = seconds if timeout is ... else timeout
        if timeout is ...:
            timeout = DEFAULT_TIMEOUT
        if deadline is not None:
            deadline = require_seconds("deadline", deadline, 0.001, MAX_DELAY_SECONDS)
        self._controller = CallController(
            operation=operation,
            policy=_with_overrides(policy, max_attempts, backoff),
            timeout=require_seconds("timeout", timeout, 0.001, MAX_DELAY_SECONDS),
            hard_timeout=hard_timeout,
            deadline=deadline,
            longest_wait=require_seconds("longest_wait", longest_wait, 0.0, MAX_DELAY_SECONDS),
            effect=choice("effect", effect, Effect),
            key_of=_checked_key(idempotency_key),
            dependency=_resolve(dependency, operation),
            breaks=dependency is not None,
            classifier=classifier,
            classify=_checked_sync("classify function", classify),
            reporter=CallReporter(fields or {}, tuple(_checked_sync("hook", hook) for hook in hooks)),
            clock=clock,
            random=random,
        )

    def __repr__(self) -> str:
        attempts = self.policy.max_attempts
        return f"<Guard of {self.operation!r}: policy {self.policy.name}, at most {attempts} attempts>"

    @property
    def operation(self) -> str:
        return self._controller.operation

    @property
    def policy(self) -> RetryPolicy:
        return self._controller.policy

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a sync or async function or method."""
        if isinstance(function, staticmethod | classmethod):
            return cast("Callable[P, R]", type(function)(self(function.__func__)))
        return update_wrapper(_wrap(function, self._controller), function)

    def call(self, function: Callable[[Attempt], R], *, idempotency_key: str | None = None) -> R:
        """Call `function(attempt)`. For an async function, await the result."""
        controller = self._with_key(idempotency_key)
        if is_async(function):
            return _wrap(_with_attempt_async(function), controller)()
        return drive(lambda: function(cast("Attempt", CURRENT.get())), controller)()

    def attempts(self, *, idempotency_key: str | None = None) -> Attempts:
        """Retry a block of code: `for attempt in guard.attempts(): with attempt: …`."""
        if self._controller.hard_timeout:
            raise InvalidValueError(
                "hard_timeout needs a function that it can run in a thread, not a block; use call or @retry"
            )
        return Attempts(self._with_key(idempotency_key))

    def _with_key(self, idempotency_key: str | None) -> CallController:
        if idempotency_key is None:
            return self._controller
        return replace(self._controller, key_of=_checked_key(idempotency_key))


def _wrap(function: Callable[P, R], controller: CallController) -> Callable[P, R]:
    if not is_async(function):
        return drive(function, controller)
    if controller.hard_timeout:
        raise InvalidValueError(
            f"hard_timeout is for sync functions; the timeout cancels {name_of(function)}, which is async"
        )
    driven = drive_async(cast("Callable[P, Awaitable[object]]", function), controller)
    return cast("Callable[P, R]", driven)


def _with_attempt_async(function: Callable[[Attempt], R]) -> Callable[[], R]:
    async def with_attempt() -> object:
        return await cast("Awaitable[object]", function(cast("Attempt", CURRENT.get())))

    return cast("Callable[[], R]", with_attempt)


def _checked_sync(what: str, function: F) -> F:
    if function is not None and is_async(function):
        raise InvalidValueError(f"the {what} {name_of(function)} is async; use a sync function")
    return function


def _checked_key(key: KeyOf | str | None) -> KeyOf | str | None:
    if callable(key):
        return _checked_sync("idempotency_key function", key)
    return None if key is None else usable_key(key)


def _with_overrides(policy: RetryPolicy, max_attempts: int | None, backoff: Backoff | None) -> RetryPolicy:
    if max_attempts is None and backoff is None:
        return policy
    return replace(
        policy,
        name=f"{policy.name} (changed)",
        max_attempts=policy.max_attempts if max_attempts is None else max_attempts,
        backoff=policy.backoff if backoff is None else backoff,
    )


def _resolve(dependency: Dependency | str | None, operation: str) -> Dependency:
    if dependency is None:
        return DEPENDENCIES.of_operation(operation)
    return DEPENDENCIES.get(dependency) if isinstance(dependency, str) else dependency


@overload
def retry(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    operation: str | None = None, /, **options: Unpack[GuardOptions]
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def retry(
    operation: str | Callable[..., Any] | None = None, /, **options: Unpack[GuardOptions]
) -> Callable[..., Any]:
    """Guard a sync or async function: `@retry`, `@retry("charge card", max_attempts=5)`.

    Without a name, the operation has the function's name. `help(redrive.Guard)` lists the options.
    """
    reject_unknown(options, GuardOptions)
    if isinstance(operation, type) and issubclass(operation, BaseException):
        raise InvalidValueError(
            "retry takes no exception classes: a classifier decides which errors are retried; "
            "pass your own rules as classifier=Classifier([Rule.for_type(...)])"
        )
    if operation is None or isinstance(operation, str):
        return lambda function: Guard(operation or name_of(function), **options)(function)
    return Guard(name_of(operation))(operation)


def call(operation: str, function: Callable[[Attempt], R], **options: Unpack[GuardOptions]) -> R:
    """Make one guarded call of `function(attempt)`. For an async function, await the result."""
    if not options:
        return _plain_guard(operation).call(function)
    reject_unknown(options, GuardOptions)
    return Guard(operation, **options).call(function)


def attempts(operation: str, **options: Unpack[GuardOptions]) -> Attempts:
    """Retry a block until it succeeds. `help(redrive.Guard)` lists the options.

    for attempt in redrive.attempts("fetch", max_attempts=5):
        with attempt:
            page = client.get("/page", timeout=attempt.remaining())

    In async code, use `async for` and `async with`; the timeout then also cancels the block.
    """
    reject_unknown(options, GuardOptions)
    return Guard(operation, **options).attempts()


_PLAIN_GUARDS: dict[str, Guard] = {}
_MAX_PLAIN_GUARDS = 1024


def _plain_guard(operation: str) -> Guard:
    guard = _PLAIN_GUARDS.get(operation)
    if guard is None:
        if len(_PLAIN_GUARDS) >= _MAX_PLAIN_GUARDS:
            _PLAIN_GUARDS.clear()
        guard = _PLAIN_GUARDS[operation] = Guard(operation)
    return guard
