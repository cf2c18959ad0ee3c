"""A live stream of the changes of an organization, for pages and API clients.

One poller per organization reads the audit for all listeners in this process; it stops with the last
listener. Each listener reads at its own pace: the newest audit entries from a short ring, older entries from
the database. The position of a listener is the sequence number of the last entry it received, so it can
reconnect and continue from there. A listener that is too far behind receives a RESET and must reload. Changes
carry no payload, no reason and no detail.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from random import Random

from redrive.clock import Clock
from redrive.engine.shared_breakers import SharedBreakers
from redrive.engine.signals import wait_for
from redrive.errors import NotStorableError, StoreError
from redrive.model.audit import Change, ChangeKind, Counters
from redrive.policy.bounds import require_whole
from redrive.policy.codec import decode
from redrive.store.audit import AuditMark
from redrive.store.store import Store

POLL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 10.0
BEAT_SECONDS = 15.0
PAGE = 200
FAR_BEHIND = 1_000
"""A listener that has missed more entries than this receives a RESET."""
MAX_SUBJECTS = 100
_MAX_SEQUENCE = 2**62


class Changes:
    """Starts a feed for each organization with listeners. `store_of` returns the store of an organization."""

    def __init__(
        self, store_of: Callable[[str], Store], breakers: SharedBreakers, clock: Clock, random: Random
    ) -> None:
        self._store_of = store_of
        self._breakers = BreakerStates(breakers, clock)
        self._clock = clock
        self._random = random
        self._feeds: dict[str, Feed] = {}

    @property
    def watched(self) -> frozenset[str]:
        """The organizations that have listeners."""
        return frozenset(self._feeds)

    async def follow(self, org: str, after: int | None = None) -> AsyncGenerator[Change, None]:
        """Yield new changes, or all changes after the entry `after`, until the application is closed."""
        if after is not None:
            require_whole("after", after, 0, _MAX_SEQUENCE)
        feed = self._join(org)
        try:
            await feed.ready()
            async with aclosing(feed.changes(after)) as changes:
                async for change in changes:
                    yield change
        finally:
            self._leave(feed)

    def close(self) -> None:
        """Disconnect all listeners."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()

    def _join(self, org: str) -> Feed:
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


class BreakerStates:
    """The states of all breakers, read once for all feeds."""

    def __init__(self, breakers: SharedBreakers, clock: Clock) -> None:
        self._breakers = breakers
        self._clock = clock
        self._read_at: float | None = None
        self._states: Mapping[str, str] = {}

    async def states(self) -> Mapping[str, str]:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= POLL_SECONDS / 2:
            self._read_at = now
            self._states = {breaker.row.name: str(breaker.state) for breaker in await self._breakers.all()}
        return self._states


class Feed:
    """Polls the audit of one organization for all its listeners."""

    def __init__(
        self,
        org: str,
        store_of: Callable[[str], Store],
        breakers: BreakerStates,
        clock: Clock,
        random: Random,
    ) -> None:
        self.org = org
        self.listeners = 0
        self._store_of = store_of
        self._breakers = breakers
        self._clock = clock
        self._random = random
        self._ring: deque[Change] = deque(maxlen=PAGE)
        self._last = 0
        self._counters: Counters | None = None
        self._news = asyncio.Event()
        self._starting = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def ready(self) -> None:
        async with self._starting:
            if self._poller is None:
                self._last = (await self._store.audit.end(self.org)).last
                self._counters = await self._count()
                self._poller = asyncio.create_task(self._poll())

    def close(self) -> None:
        self._closing.set()
        self._news.set()
        if self._poller is not None:
            self._poller.cancel()

    async def changes(self, after: int | None) -> AsyncGenerator[Change, None]:
        """Yield changes to one listener."""
        position, counters = self._last if after is None else after, self._counters
        yield self._change(ChangeKind.COUNTERS, position, counters)
        while not self._closing.is_set():
            news = self._news
            for change in await self._next_changes(position):
                position = change.sequence
                yield change
            if counters != self._counters:
                counters = self._counters
                yield self._change(ChangeKind.COUNTERS, position, counters)
            if news is self._news and position == self._last and not await self._wait_for_news(news):
                self._check_poller()
                yield self._change(ChangeKind.BEAT, position)

    @property
    def _store(self) -> Store:
        return self._store_of(self.org)

    async def _wait_for_news(self, news: asyncio.Event) -> bool:
        """Return True when there is news, False when it is time for a BEAT."""
        return await wait_for(news, BEAT_SECONDS, self._clock)

    async def _next_changes(self, position: int) -> Sequence[Change]:
        """Return the next changes after `position`; there may be more."""
        if not 0 <= self._last - position <= FAR_BEHIND:
            return [self._change(ChangeKind.RESET, self._last)]
        if position == self._last:
            return ()
        if self._ring and self._ring[0].sequence <= position + 1:
            return [change for change in self._ring if change.sequence > position]
        return await self._read(position)

    async def _read(self, position: int) -> Sequence[Change]:
        try:
            found = await self._store.audit.after(self.org, position, PAGE)
        except StoreError:  # retried at the next news or beat
            await self._wait_for_news(self._news)
            return ()
        # Skip entries that the poller has not read yet: no listener may be ahead of it.
        seen = [_entry(mark) for mark in found if mark.sequence <= self._last]
        return seen or [self._change(ChangeKind.RESET, self._last)]

    def _change(self, kind: ChangeKind, position: int, counters: Counters | None = None) -> Change:
        return Change(kind, position, self._clock.now(), counters=counters)

    # Polling, for all listeners

    async def _poll(self) -> None:
        pause = POLL_SECONDS
        while not await wait_for(self._closing, pause * (0.75 + self._random.random() / 2), self._clock):
            try:
                changed = await self._poll_once()
            except StoreError:
                pause = min(pause * 2, MAX_PAUSE_SECONDS)
                continue
            pause = POLL_SECONDS
            if changed:
                self._news.set()
                self._news = asyncio.Event()

    def _check_poller(self) -> None:
        if self._poller is not None and self._poller.done() and not self._closing.is_set():
            self._poller.result()

    async def _poll_once(self) -> bool:
        """Return True when something changed."""
        found = await self._store.audit.after(self.org, self._last, PAGE)
        breakers = await self._breakers.states()
        known = None if self._counters is None else self._counters.breakers
        if not found and breakers == known:
            return False
        counters = await self._count()
        last = found[-1].sequence if found else self._last
        if len(found) == PAGE:  # listeners read the entries in between from the database
            last = (await self._store.audit.end(self.org)).last
            self._ring.clear()
        else:
            self._ring.extend(map(_entry, found))
        self._last, self._counters = last, counters
        return True

    async def _count(self) -> Counters:
        figures = await self._store.dead_letters.figures(self.org)
        return Counters(dict(figures.by_state), dict(await self._breakers.states()))


def _entry(mark: AuditMark) -> Change:
    subjects = [mark.subject] if mark.subject else _subjects(mark.subjects)
    return Change(
        kind=ChangeKind.ENTRY,
        sequence=mark.sequence,
        at=mark.at,
        action=mark.action,
        subjects=tuple(map(str, subjects[:MAX_SUBJECTS])),
        number=len(subjects),
    )


def _subjects(text: str | None) -> Sequence[object]:
    """Return the subjects of an entry; none if the entry is damaged."""
    try:
        value = None if text is None else decode(text)
    except NotStorableError:
        return ()
    return value if isinstance(value, list) else ()
