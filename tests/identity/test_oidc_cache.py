"""A provider's documents: fetched rarely, by one caller at a time, and not trusted forever."""

from __future__ import annotations

import asyncio

import pytest

from redrive.identity.oidc import ProviderUnavailableError
from redrive.identity.oidc.connection import CACHE_SECONDS, FAILURE_SECONDS, REFRESH_PAUSE_SECONDS, FetchCache
from redrive.testing import VirtualClock


class Publisher:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.asked = 0
        self.is_down = False
        self.cache = FetchCache(self._fetch, self.clock)

    async def _fetch(self) -> int:
        self.asked += 1
        await asyncio.sleep(0)  # other callers arrive meanwhile
        if self.is_down:
            raise ProviderUnavailableError("keys", "down")
        return self.asked


async def test_many_at_once_ask_once() -> None:
    publisher = Publisher()
    assert set(await asyncio.gather(*(publisher.cache.get() for _ in range(20)))) == {1}


async def test_it_is_asked_for_again_after_a_while() -> None:
    publisher = Publisher()
    for elapsed, expected in ((0.0, 1), (CACHE_SECONDS - 1.0, 1), (2.0, 2)):
        publisher.clock.advance(elapsed)
        assert await publisher.cache.get() == expected


async def test_before_its_time_it_is_asked_for_once_a_minute_at_most() -> None:
    publisher = Publisher()
    assert await publisher.cache.get() == 1
    for elapsed, expected in ((0.0, 2), (0.0, 2), (REFRESH_PAUSE_SECONDS - 1.0, 2), (2.0, 3)):
        publisher.clock.advance(elapsed)
        assert await publisher.cache.refresh() == expected


async def test_a_failure_is_cached_briefly_and_then_retried() -> None:
    publisher = Publisher()
    publisher.is_down = True
    answers = await asyncio.gather(*(publisher.cache.get() for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in answers} == {ProviderUnavailableError}
    assert publisher.asked == 1
    publisher.is_down = False
    with pytest.raises(ProviderUnavailableError):
        await publisher.cache.get()
    publisher.clock.advance(FAILURE_SECONDS + 1.0)
    assert await publisher.cache.get() == 2
