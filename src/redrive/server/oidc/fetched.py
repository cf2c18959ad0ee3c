"""Something that the provider publishes: asked for by one at a time, and trusted for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from redrive.clock import Clock
from redrive.server.oidc.provider_client import WireError

T = TypeVar("T")

TRUSTED_FOR = 600.0
PAUSE = 60.0
"""It is not asked for before its time more often than that, whatever strangers send."""
FAILED_FOR = 5.0
"""So long, whoever comes after a failure is told of it instead of waiting for the next one."""


class Fetched(Generic[T]):
    def __init__(self, fetch: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._failure: WireError | None = None
        self._until = float("-inf")
        self._renewable_at = float("-inf")

    async def get(self) -> T:
        async with self._lock:
            return await self._current()

    async def renewed(self) -> T:
        """What is published now, unless it was asked for in this way a moment ago."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._value is not None and now >= self._renewable_at:
                self._renewable_at, self._value = now + PAUSE, None
                self._until = now
            return await self._current()

    async def _current(self) -> T:
        if self._clock.monotonic() < self._until:
            if self._failure is not None:
                raise self._failure
            if self._value is not None:
                return self._value
        return await self._asked()

    async def _asked(self) -> T:
        try:
            self._value, self._failure = await self._fetch(), None
        except WireError as error:
            self._value, self._failure = None, error
            self._until = self._clock.monotonic() + FAILED_FOR
            raise
        self._until = self._clock.monotonic() + TRUSTED_FOR
        return self._value
