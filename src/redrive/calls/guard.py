"""A guard: bounded, classified, retried calls of one operation.

`_run` and `_run_async` are the same few lines in two colours; whatever there is to decide, the judge decides.
"""

from __future__ import annotations

import random as dice
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

from redrive.calls.attempt import CURRENT, Attempt
from redrive.calls.dependency import DEPENDENCIES, Dependency
from redrive.calls.judge import Hook, Judge
from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import LONGEST_DELAY, require
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.presets import CALL
from redrive.policy.retry import RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")

KeyOf = Callable[..., str | None]


class Guard:
    """Calls of one operation: retried by a policy, every attempt bounded in time, every error classified.

    timeout         seconds for one attempt; async ones are stopped, sync ones are told (`Attempt.remaining`)
    deadline        seconds for the whole call, waits included; no attempt and no wait goes beyond it
    longest_wait    a longer wait raises DeferredError instead of sleeping
    effect          Effect.UNSAFE: what may have been executed is repeated only with an idempotency key
    idempotency_key a function of the call's arguments, or the key itself
    dependency      its breaker and its retry budget guard the call; without one, the operation has a budget
    """

    def __init__(
        self,
        operation: str,
        *,
        policy: RetryPolicy = CALL,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        timeout: float = 10.0,
        deadline: float | None = None,
        longest_wait: float = 60.0,
        effect: Effect = Effect.IDEMPOTENT,
        idempotency_key: KeyOf | str | None = None,
        dependency: Dependency | str | None = None,
        classifier: Classifier = DEFAULT_CLASSIFIER,
        fields: Mapping[str, Any] | None = None,
        hooks: Iterable[Hook] = (),
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] = dice.random,
    ) -> None:
        require("timeout", timeout, 0.001, LONGEST_DELAY)
        require("longest_wait", longest_wait, 0.0, LONGEST_DELAY)
        if deadline is not None:
            require("deadline", deadline, 0.001, LONGEST_DELAY)
        self._breaks = dependency is not None
        self._dependency = _resolve(dependency if dependency is not None else operation)
        self._key_of = idempotency_key
        self._clock = clock
        self._judge = Judge(
            operation=operation,
            policy=_merged(policy, max_attempts, backoff),
            timeout=timeout,
            deadline=deadline,
            longest_wait=longest_wait,
            effect=effect,
            dependency=self._dependency,
            classifier=classifier,
            fields=fields or {},
            hooks=tuple(hooks),
            clock=clock,
            random=random,
        )

    @property
    def operation(self) -> str:
        return self._judge.operation

    @property
    def policy(self) -> RetryPolicy:
        return self._judge.policy

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, sync or async."""
        if _is_generator(function):
            raise InvalidValueError(f"{function} is a generator; guard the calls that it makes instead")
        if _is_async(function):
            decorated = self._decorate_async(cast("Callable[P, Awaitable[object]]", function))
            return cast("Callable[P, R]", decorated)
        run, key_of = self._run, self._key_of

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            return run(function, args, kwargs, key_of and _key(key_of, args, kwargs))

        return guarded

    def call(self, function: Callable[[Attempt], R], *, idempotency_key: str | None = None) -> R:
        """Call `function(attempt)`. An async function gives an awaitable of its result."""
        key = idempotency_key or _key(self._key_of, (), {})
        if _is_async(function):
            asynchronous = cast("Callable[[Attempt], Awaitable[object]]", function)
            return cast("R", self._run_async(_with_attempt(asynchronous), (), {}, key))
        return self._run(_with_attempt(function), (), {}, key)

    def _decorate_async(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        run, key_of = self._run_async, self._key_of

        @wraps(function)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            return await run(function, args, kwargs, key_of and _key(key_of, args, kwargs))

        return guarded

    def _run(
        self,
        function: Callable[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
    ) -> R:
        judge = self._judge
        attempt = judge.first(key)
        while True:
            permit = None
            token = CURRENT.set(attempt)
            try:
                if self._breaks:
                    permit = self._dependency.admit()
                result = function(*args, **kwargs)
            except Exception as error:
                CURRENT.reset(token)
                wait = judge.failed(attempt, permit, error)
                if wait is None:
                    raise
            except BaseException:
                CURRENT.reset(token)
                judge.abandoned(permit)
                raise
            else:
                CURRENT.reset(token)
                judge.succeeded(attempt, permit)
                return result
            if wait > 0.0:
                self._clock.pause(wait)
            attempt = judge.next(attempt)

    async def _run_async(
        self,
        function: Callable[..., Awaitable[R]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str | None,
    ) -> R:
        from redrive.calls.bounded import bounded  # `import redrive` must not pay for asyncio

        judge = self._judge
        attempt = judge.first(key)
        while True:
            permit = None
            token = CURRENT.set(attempt)
            try:
                if self._breaks:
                    permit = self._dependency.admit()
                result = await bounded(function(*args, **kwargs), attempt)
            except Exception as error:
                CURRENT.reset(token)
                wait = judge.failed(attempt, permit, error)
                if wait is None:
                    raise
            except GeneratorExit:
                # Thrown away while waiting; this may run in another context, where a token cannot be reset.
                judge.abandoned(permit)
                raise
            except BaseException:
                CURRENT.reset(token)
                judge.abandoned(permit)
                raise
            else:
                CURRENT.reset(token)
                judge.succeeded(attempt, permit)
                return result
            if wait > 0.0:
                await self._clock.sleep(wait)
            attempt = judge.next(attempt)


def _merged(policy: RetryPolicy, max_attempts: int | None, backoff: Backoff | None) -> RetryPolicy:
    if max_attempts is None and backoff is None:
        return policy
    return replace(
        policy,
        name=f"{policy.name} (changed)",
        max_attempts=policy.max_attempts if max_attempts is None else max_attempts,
        backoff=policy.backoff if backoff is None else backoff,
    )


def _resolve(dependency: Dependency | str) -> Dependency:
    return DEPENDENCIES.get(dependency) if isinstance(dependency, str) else dependency


def _key(key_of: KeyOf | str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    return key_of(*args, **kwargs) if callable(key_of) else key_of


def _with_attempt(function: Callable[[Attempt], R]) -> Callable[[], R]:
    return lambda: function(cast("Attempt", CURRENT.get()))


def _is_async(function: Callable[..., object]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _is_generator(function: Callable[..., object]) -> bool:
    return isgeneratorfunction(function) or isasyncgenfunction(function)
