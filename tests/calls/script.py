"""A function with scripted outcomes, and the four ways to call it through a guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, TypeVar, cast

from redrive import Attempt, Guard
from redrive.calls import current_attempt
from redrive.testing import VirtualClock

R = TypeVar("R")

Play = Callable[["Script", Guard], Any]


class Script:
    """Plays its outcomes in order: raises the exceptions, returns everything else.

    A number in `takes` is the clock time that the attempt at that place takes.
    """

    def __init__(
        self, *outcomes: object, clock: VirtualClock | None = None, takes: tuple[float, ...] = ()
    ) -> None:
        self._outcomes = list(outcomes)
        self._takes = list(takes)
        self._clock = clock
        self.attempts: list[Attempt] = []
        self.times: list[float] = []

    @property
    def executions(self) -> int:
        return len(self.attempts)

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]

    def __call__(self, attempt: Attempt) -> Any:
        self.attempts.append(attempt)
        if self._clock is not None:
            self.times.append(self._clock.time)
            self._clock.time += self._takes.pop(0) if self._takes else 0.0
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def play_sync(script: Script, guard: Guard) -> Any:
    return guard.call(script)


def play_async(script: Script, guard: Guard) -> Any:
    async def acted(attempt: Attempt) -> Any:
        return script(attempt)

    return run_through(guard.call(acted))


def play_block(script: Script, guard: Guard) -> Any:
    for attempt in guard.attempts():
        with attempt:
            return script(cast("Attempt", current_attempt()))
    raise AssertionError("a block that fails for good raises its error")


def play_async_block(script: Script, guard: Guard) -> Any:
    async def acted() -> Any:
        async for attempt in guard.attempts():
            async with attempt:
                return script(cast("Attempt", current_attempt()))
        raise AssertionError("a block that fails for good raises its error")

    with closing(asyncio.new_event_loop()) as loop:  # asyncio.run would remove the event loop of the test
        return loop.run_until_complete(acted())


def run_through(coroutine: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that never waits. There is no event loop, so it cannot set a timer."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("R", done.value)
    coroutine.close()
    raise AssertionError("the coroutine waited for something")
