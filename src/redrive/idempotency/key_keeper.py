"""The keeper of idempotency keys: renews their leases on a thread and a connection of its own.

As with the leases of steps, a blocked event loop must not lose them. The thread is there from the first key
on until the application is closed, and sleeps while nothing needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from threading import Event, Thread, current_thread
from typing import NamedTuple

from redrive.clock import Clock
from redrive.model.idempotency import KeyName
from redrive.store.database import Database
from redrive.store.idempotency import IdempotencyKeys, KeyRenewal

LOOKS = 12.0
"""So many times a lease the keeper looks at most: it tries a renewal that failed again."""


class Kept(NamedTuple):
    """A key that is held, since that moment of the monotonic clock. The thread of the keeper calls `lost`."""

    name: KeyName
    token: int
    lease_seconds: float
    since: float
    lost: Callable[[], None]

    @property
    def due_at(self) -> float:
        return self.since + self.lease_seconds / 3.0


class KeyLeaseRenewer:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._kept: dict[int, Kept] = {}
        self._wake = Event()
        self._next_look = inf
        self._thread: Thread | None = None

    def hold(self, kept: Kept) -> None:
        self._kept[kept.token] = kept
        if self._thread is None and not self._database.in_memory:
            self._start()
        elif kept.due_at < self._next_look:
            self._wake.set()

    def drop(self, token: int) -> None:
        self._kept.pop(token, None)

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join(timeout=1.0)  # it may be waiting for a network that is silent

    async def renew(self, keys: IdempotencyKeys) -> None:
        """Renew what is a third of its time old; tell those who have lost theirs."""
        now = self._clock.monotonic()
        # Copied in one go: keys come and go on another thread meanwhile.
        due = [kept for kept in self._kept.copy().values() if kept.due_at <= now]
        if not due:
            return
        try:
            async with asyncio.timeout(_shortest(due) / 3.0):
                renewed = await keys.renew_if_held([_renewal(kept) for kept in due])
        except Exception:  # noqa: BLE001 — whatever it is, the keys are not renewed, and the others must be
            self._fence([kept for kept in due if kept.since + kept.lease_seconds <= now])
            return
        for kept in due:
            if kept.token in renewed and kept.token in self._kept:
                self._kept[kept.token] = kept._replace(since=now)
        self._fence([kept for kept in due if kept.token not in renewed])

    def _fence(self, lost: Sequence[Kept]) -> None:
        """What has ended in the meantime was not lost."""
        for kept in lost:
            if self._kept.pop(kept.token, None) is not None:
                kept.lost()

    def _start(self) -> None:
        self._thread = Thread(target=self._main, name="redrive-keys", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        asyncio.run(self._renew_until_stopped())

    async def _renew_until_stopped(self) -> None:
        database = self._database.another()
        keys = IdempotencyKeys(database)
        while self._is_wanted():
            self._wake.wait(self._until_next_look())
            await self.renew(keys)
        await database.close()

    def _is_wanted(self) -> bool:
        return self._thread is current_thread()

    def _until_next_look(self) -> float | None:
        self._wake.clear()
        # Before looking: a key that comes while we look must find that it has to wake us.
        self._next_look = inf
        if not self._is_wanted():
            return 0.0
        kept = list(self._kept.copy().values())
        if not kept:
            return None
        now = self._clock.monotonic()
        self._next_look = max(min(each.due_at for each in kept), now + _shortest(kept) / LOOKS)
        return self._next_look - now


def _shortest(kept: Sequence[Kept]) -> float:
    return min(each.lease_seconds for each in kept)


def _renewal(kept: Kept) -> KeyRenewal:
    return KeyRenewal(*kept.name, kept.token, kept.lease_seconds)
