"""Helpers for user functions: check whether one is async, find its name, await it with a timeout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from inspect import (
    CO_ASYNC_GENERATOR,
    CO_COROUTINE,
    CO_GENERATOR,
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
)
from types import FunctionType, coroutine
from typing import Any, Protocol, TypeVar

from redrive.errors import InvalidValueError

R = TypeVar("R")

_GENERATOR = CO_GENERATOR | CO_ASYNC_GENERATOR


def is_async(function: Callable[..., object]) -> bool:
    """Check whether the result must be awaited. Reject generators and objects that are not callable."""
    if type(function) is FunctionType and not function.__dict__:
        flags = function.__code__.co_flags  # same result as below, but faster
        if not flags & _GENERATOR:
            return bool(flags & CO_COROUTINE)
    if not callable(function):
        raise InvalidValueError(f"{function!r} is not callable; pass a function")
    inner = innermost(function)
    if _is_generator(inner) or _is_generator(type(inner).__call__):
        raise InvalidValueError(f"{name_of(function)} is a generator; guard the calls it makes instead")
    return iscoroutinefunction(inner) or iscoroutinefunction(type(inner).__call__)


def innermost(function: Any) -> Any:
    """Return the function inside any number of partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def name_of(function: object) -> str:
    """Return the qualified name of a function; of a partial's function; of a callable object's class."""
    inner = innermost(function)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _is_generator(function: Callable[..., object]) -> bool:
    return isgeneratorfunction(function) or isasyncgenfunction(function)


class Limited(Protocol):
    """An attempt of a call or a step, with a time limit."""

    def remaining(self) -> float: ...

    def out_of_time(self) -> Exception: ...


async def bounded(awaitable: Awaitable[R], attempt: Limited) -> R:
    """Await the result, or raise AttemptTimeoutError when the attempt runs out of time.

    The coroutine starts before a timer is set, so a coroutine that never waits, for example because it reads
    a cache, needs no timer. From its first wait on, it runs under `asyncio.timeout`.
    """
    steps = awaitable.__await__()
    try:
        waiting_for = next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    from asyncio import timeout  # sync calls must not pay for asyncio

    limit = timeout(attempt.remaining())
    try:
        async with limit:
            return await _resume(steps, waiting_for)  # type: ignore[no-any-return]
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise attempt.out_of_time() from error
    finally:
        # Break a cycle: an error references this frame, and the future and `limit` reference the error.
        del awaitable, waiting_for, limit


@coroutine
def _resume(steps: Any, waiting_for: Any) -> Generator[Any, Any, Any]:
    """Continue an iterator that has already yielded its first value, as `yield from` does."""
    try:
        while True:
            try:
                sent = yield waiting_for
            except GeneratorExit:
                if isinstance(steps, Generator):
                    steps.close()
                raise
            except BaseException as error:
                if not isinstance(steps, Generator):
                    raise
                waiting_for = steps.throw(error)
            else:
                waiting_for = next(steps) if sent is None else steps.send(sent)
    except StopIteration as done:
        return done.value
    finally:
        del waiting_for
