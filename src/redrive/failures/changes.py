"""The changes of an org, as the audit tells them, for whoever watches. No payload, no reason, no detail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from random import Random

from redrive.clock import Clock
from redrive.engine.breakers import Breakers
from redrive.failures.feed import BreakerStates, Feed
from redrive.model.change import Change
from redrive.policy.bounds import require_whole
from redrive.store.store import Store

_BEYOND = 2**62


class Changes:
    """`store_of` gives the store of an org."""

    def __init__(
        self, store_of: Callable[[str], Store], breakers: Breakers, clock: Clock, random: Random
    ) -> None:
        self._store_of = store_of
        self._breakers = BreakerStates(breakers, clock)
        self._clock = clock
        self._random = random
        self._feeds: dict[str, Feed] = {}

    @property
    def watched(self) -> frozenset[str]:
        """The orgs that somebody listens to."""
        return frozenset(self._feeds)

    async def follow(self, org: str, after: int | None = None) -> AsyncGenerator[Change, None]:
        """What happens from now on, or has happened after that entry; ends when the application is closed."""
        if after is not None:
            require_whole("after", after, 0, _BEYOND)
        feed = self._joined(org)
        try:
            await feed.ready()
            async with aclosing(feed.changes(after)) as changes:
                async for change in changes:
                    yield change
        finally:
            self._leave(feed)

    def close(self) -> None:
        """All listeners come to their end."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()

    def _joined(self, org: str) -> Feed:
        if org not in self._feeds:
            self._feeds[org] = Feed(org, self._store_of, self._breakers, self._clock, self._random)
        feed = self._feeds[org]
        feed.listeners += 1
        return feed

    def _leave(self, feed: Feed) -> None:
        feed.listeners -= 1
        if not feed.listeners:
            feed.close()
            if self._feeds.get(feed.org) is feed:
                del self._feeds[feed.org]
