"""Functions to call: whether one is async, its name, and awaiting it for a limited time."""

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
    """Tell whether the result has to be awaited; reject generators and objects that cannot be called."""
    if type(function) is FunctionType and not function.__dict__:
        flags = function.__code__.co_flags  # the same answers as below, but faster
        if not flags & _GENERATOR:
            return bool(flags & CO_COROUTINE)
    if not callable(function):
        raise InvalidValueError(f"{function!r} cannot be called, so it cannot be guarded")
    inner = innermost(function)
    if _is_generator(inner) or _is_generator(type(inner).__call__):
        raise InvalidValueError(f"{name_of(function)} is a generator; guard the calls that it makes instead")
    return iscoroutinefunction(inner) or iscoroutinefunction(type(inner).__call__)


def innermost(function: Any) -> Any:
    """Return the function behind all its partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def name_of(function: object) -> str:
    """Return the qualified name, of a partial that of its function, of an object that of its class."""
    inner = innermost(function)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _is_generator(function: Callable[..., object]) -> bool:
    return isgeneratorfunction(function) or isasyncgenfunction(function)


class Limited(Protocol):
    """An attempt of a call or of a step, whose time is limited."""

    def remaining(self) -> float: ...

    def out_of_time(self) -> Exception: ...


async def bounded(awaitable: Awaitable[R], attempt: Limited) -> R:
    """Return the result of the awaitable, or raise AttemptTimeoutError when the attempt runs out of time.

    The coroutine starts before any timer is set: one that never waits, for example because it answers from a
    cache, costs no timer. Once it waits, the rest runs under `asyncio.timeout`.
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
            return await _go_on(steps, waiting_for)  # type: ignore[no-any-return]
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise attempt.out_of_time() from error
    finally:
        # An error references this frame; the awaited future and the task in `limit` reference the error.
        del awaitable, waiting_for, limit


@coroutine
def _go_on(steps: Any, waiting_for: Any) -> Generator[Any, Any, Any]:
    """Continue an iterator that has yielded its first value, as `yield from` does."""
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
