"""Awaiting something for a limited time.

The coroutine is started before any timer is set: one that ends without ever waiting, from a cache for
example, costs no timer. When it does wait, the rest runs under `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class Limited(Protocol):
    """Something whose time is limited: an attempt of a call, or of a step."""

    def remaining(self) -> float: ...

    def out_of_time(self) -> Exception: ...


async def bounded(awaitable: Awaitable[R], attempt: Limited) -> R:
    """The awaitable's result, or AttemptTimeoutError when the time of the attempt is over."""
    steps = awaitable.__await__()
    try:
        waiting_for = next(steps)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    limit = asyncio.timeout(attempt.remaining())
    try:
        async with limit:
            return await _go_on(steps, waiting_for)  # type: ignore[no-any-return]
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise attempt.out_of_time() from error
    finally:
        # An error holds this frame; what is waited for holds the error, and so does the task in `limit`.
        del awaitable, waiting_for, limit


@coroutine
def _go_on(steps: Any, waiting_for: Any) -> Generator[Any, Any, Any]:
    """`yield from` for an iterator that has already given its first value."""
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
