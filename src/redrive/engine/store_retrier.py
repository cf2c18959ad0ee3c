"""Retries of database operations, with exponential backoff, until the database responds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from random import Random
from typing import TypeVar

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.event import StoreFailed, StoreRecovered
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Exponential
from redrive.policy.jitter import Equal

T = TypeVar("T")

BACKOFF = Backoff(Exponential(0.1, 2.0), cap=2.0, jitter=Equal())


class StoreRetrier:
    """`unavailable_at` is when the database was last unavailable, on the monotonic clock."""

    def __init__(self, clock: Clock, random: Random, event_bus: EventBus) -> None:
        self._clock = clock
        self._random = random
        self._event_bus = event_bus
        self.unavailable_at = -inf

    def report_failure(self, doing: str, error: str, wait: float) -> None:
        self._event_bus.emit(StoreFailed(doing, error, wait))

    async def run(
        self,
        doing: str,
        action: Callable[[], Awaitable[T]],
        error: StoreError | None = None,
        *,
        errors: type[StoreError] = StoreError,
        tries: int | None = None,
    ) -> T:
        """Run an action until it succeeds, at most `tries` times. After a previous `error`, wait first.

        A database error never stops a worker: an operator may repair the database in the meantime.
        """
        failures, started = 0, self._clock.monotonic()
        while True:
            if error is not None:
                if isinstance(error, StoreUnavailableError):
                    self.unavailable_at = self._clock.monotonic()
                failures += 1
                if failures == tries:
                    raise error
                await self._wait(doing, failures, error)
            try:
                result = await action()
            except errors as again:
                error = again
                continue
            if failures:
                self._event_bus.emit(StoreRecovered(doing, self._clock.monotonic() - started))
            return result

    async def _wait(self, doing: str, failures: int, error: StoreError) -> None:
        wait = BACKOFF.wait(failures, draw=self._random.random())
        seconds = 1.0 if wait is None else wait.seconds
        self._event_bus.emit(StoreFailed(doing, str(error), seconds))
        await self._clock.sleep(seconds)
