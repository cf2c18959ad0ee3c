"""Sync and async drivers of a guarded call: the controller decides, the driver executes and waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from types import CoroutineType
from typing import NoReturn, ParamSpec, TypeVar

from redrive.callables import bounded
from redrive.calls.attempt import CURRENT
from redrive.calls.controller import CallController
from redrive.calls.helper_thread import with_hard_timeout
from redrive.errors import InvalidValueError

P = ParamSpec("P")
R = TypeVar("R")


def drive(function: Callable[P, R], controller: CallController) -> Callable[P, R]:
    if controller.hard_timeout:
        function = with_hard_timeout(function)

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = controller.first(args, kwargs)
        while True:
            permit = None
            token = CURRENT.set(attempt)
            try:
                if controller.breaks:
                    permit = controller.dependency.admit()
                result = function(*args, **kwargs)
                if controller.clock.monotonic() >= attempt.expires:
                    raise attempt.out_of_time()
            except Exception as error:
                CURRENT.reset(token)
                wait = controller.failed(attempt, permit, error)
                if wait is None:
                    raise
                if wait > 0.0:
                    controller.clock.pause(wait)
                following = controller.next(attempt, error)
                if following is None:
                    raise
                attempt = following
            except BaseException:
                CURRENT.reset(token)
                controller.abandoned(attempt, permit)
                raise
            else:
                CURRENT.reset(token)
                if _is_awaited(type(result)):
                    controller.abandoned(attempt, permit)
                    _reject_awaitable(attempt.operation, result)
                controller.succeeded(attempt, permit)
                return result

    return guarded


def _has_await(kind: type) -> bool:
    return hasattr(kind, "__await__")


# A failed attribute lookup on a type is slow, so the results are cached.
_is_awaited: Callable[[type], bool] = lru_cache(maxsize=1024)(_has_await)


def _reject_awaitable(operation: str, result: object) -> NoReturn:
    if isinstance(result, CoroutineType):
        result.close()
    raise InvalidValueError(
        f"{operation!r} returned an awaitable, whose failures would not be retried; "
        f"guard the async function itself"
    )


def drive_async(function: Callable[P, Awaitable[R]], controller: CallController) -> Callable[P, Awaitable[R]]:
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = controller.first(args, kwargs)
        while True:
            permit = None
            token = CURRENT.set(attempt)
            try:
                if controller.breaks:
                    permit = controller.dependency.admit()
                result = await bounded(function(*args, **kwargs), attempt)
            except Exception as error:
                CURRENT.reset(token)
                wait = controller.failed(attempt, permit, error)
                if wait is None:
                    raise
                if wait > 0.0:
                    await controller.clock.sleep(wait)
                following = controller.next(attempt, error)
                if following is None:
                    raise
                attempt = following
            except GeneratorExit:
                controller.abandoned(attempt, permit)
                # Discarded while waiting: this may run in another context, where the token cannot be reset.
                with suppress(ValueError):
                    CURRENT.reset(token)
                raise
            except BaseException:
                CURRENT.reset(token)
                controller.abandoned(attempt, permit)
                raise
            else:
                CURRENT.reset(token)
                controller.succeeded(attempt, permit)
                return result

    return guarded
