"""Driving a sync function through its attempts. The judge decides, the driver executes and waits."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any, NoReturn, ParamSpec, TypeVar

from redrive.calls.attempt import CURRENT
from redrive.calls.judge import Judge
from redrive.errors import InvalidValueError

P = ParamSpec("P")
R = TypeVar("R")


def drive(function: Callable[P, R], judge: Judge) -> Callable[P, R]:
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = judge.first(args, kwargs)
        while True:
            permit = None
            token = CURRENT.set(attempt)
            try:
                if judge.breaks:
                    permit = judge.dependency.admit()
                result = function(*args, **kwargs)
            except Exception as error:
                CURRENT.reset(token)
                wait = judge.failed(attempt, permit, error)
                if wait is None:
                    raise
                if wait > 0.0:
                    judge.clock.pause(wait)
                following = judge.next(attempt, error)
                if following is None:
                    raise
                attempt = following
            except BaseException:
                CURRENT.reset(token)
                judge.abandoned(attempt, permit)
                raise
            else:
                CURRENT.reset(token)
                judge.succeeded(attempt, permit)
                if type(result) is CoroutineType:
                    _refuse(result)
                return result

    return guarded


def _refuse(result: Any) -> NoReturn:
    result.close()
    raise InvalidValueError(
        f"{result.__qualname__} was to be guarded, but is async and was called through a sync function, "
        "which hides its failures; guard the async function itself"
    )
