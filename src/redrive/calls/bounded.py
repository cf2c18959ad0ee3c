"""Awaiting something for a limited time.

The coroutine is started before any timer is set: one that ends without ever waiting, from a cache for
example, costs no timer. When it does wait, the rest runs under `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, TypeVar

from redrive.calls.attempt import Attempt

R = TypeVar("R")


async def bounded(awaitable: Awaitable[R], attempt: Attempt) -> R:
    """The awaitable's result, or AttemptTimeoutError when the time of the attempt is over."""
    steps = awaitable.__await__()
    try:
        waiting_for = next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    try:
        async with asyncio.timeout(attempt.remaining()) as limit:
            return await _go_on(steps, waiting_for)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise attempt.out_of_time() from error


@coroutine
def _go_on(steps: Generator[Any, Any, R], waiting_for: Any) -> Generator[Any, Any, R]:
    """`yield from` for a generator that has already yielded once."""
    try:
        while True:
            try:
                sent = yield waiting_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001
                waiting_for = steps.throw(error)
            else:
                waiting_for = steps.send(sent)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
