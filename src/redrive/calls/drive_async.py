"""Driving an async function through its attempts. The controller decides, the driver executes and waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from redrive.bounded import bounded
from redrive.calls.attempt import CURRENT
from redrive.calls.controller import CallController

P = ParamSpec("P")
R = TypeVar("R")


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
                # Thrown away while waiting; this may run in another context, where a token cannot be reset.
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
