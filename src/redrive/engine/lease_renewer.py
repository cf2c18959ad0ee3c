"""Lease renewal, on a thread and a connection of its own.

A renewer must not share an event loop with the work it vouches for: a blocked loop would lose all its leases.
Its thread sleeps while no lease is due for renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from math import inf
from threading import Event, Thread, current_thread
from typing import Generic, TypeVar

from redrive.clock import Clock
from redrive.store.database import Database, Session

LOOKS_PER_LEASE = 12.0
"""The thread looks at most that often while a lease lasts: it tries a renewal that failed again."""

K = TypeVar("K", bound=Hashable)

Renew = Callable[[Session, Sequence[tuple[K, float]]], Awaitable[Mapping[K, bool]]]
"""Renews leases, given as keys and seconds. A key without an answer is lost; False: held, but not renewed."""


class LeaseRenewer(Generic[K]):
    """`lost` is called with the keys that others hold by now, or that could not be renewed in time. While the
    thread runs, it is the caller."""

    def __init__(
        self,
        name: str,
        database: Database,
        clock: Clock,
        renew: Renew[K],
        lost: Callable[[list[K]], None],
    ) -> None:
        self._name = name
        self._database = database
        self._clock = clock
        self._renew = renew
        self._lost = lost
        self._leases: dict[K, tuple[float, float]] = {}
        self._wake = Event()
        self._next_look = inf
        self._thread: Thread | None = None

    def hold(self, key: K, seconds: float, since: float) -> None:
        """Renew this lease from now on. It was taken at `since` of the monotonic clock, at the latest."""
        self._leases[key] = since, seconds
        if since + seconds / 3.0 < self._next_look and self._thread is not None:
            self._wake.set()

    def drop(self, key: K) -> None:
        self._leases.pop(key, None)

    def has_expired(self, key: K) -> bool:
        """Whether others may hold the lease by now, as after the process was suspended.

        A lease that is not renewed any more has expired too: the call of `lost` is on its way.
        """
        lease = self._leases.get(key)
        return lease is None or self._clock.monotonic() - lease[0] >= lease[1]

    def start(self) -> None:
        """Renew in the background until `stop`. A renewer that runs goes on."""
        if self._thread is None:
            self._thread = Thread(target=self._main, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join(timeout=1.0)  # it may be waiting for a network that is silent

    async def renew(self, session: Session) -> None:
        """Renew the leases that are a third of their time old."""
        now = self._clock.monotonic()
        # Copied in one go: leases come and go on another thread meanwhile.
        due = [
            (key, seconds)
            for key, (since, seconds) in self._leases.copy().items()
            if now - since >= seconds / 3.0
        ]
        if not due:
            return
        try:
            async with asyncio.timeout(min(seconds for _, seconds in due) / 3.0):
                renewed = await self._renew(session, due)
        except Exception:  # noqa: BLE001 — whatever it is, the thread must go on renewing the others
            self._give_up([key for key, _ in due if self.has_expired(key)])
            return
        for key, seconds in due:
            if renewed.get(key) and key in self._leases:
                self._leases[key] = now, seconds
        self._give_up([key for key, _ in due if key not in renewed])

    def _give_up(self, keys: Sequence[K]) -> None:
        """A lease that was dropped in the meantime is not lost."""
        lost = [key for key in keys if self._leases.pop(key, None) is not None]
        if lost:
            self._lost(lost)

    def _main(self) -> None:
        asyncio.run(self._renew_until_stopped())

    async def _renew_until_stopped(self) -> None:
        database = self._database.another()
        while self._is_running():
            self._wake.wait(self._seconds_until_look())
            await self.renew(database)
        await database.close()

    def _is_running(self) -> bool:
        return self._thread is current_thread()

    def _seconds_until_look(self) -> float | None:
        self._wake.clear()
        # Before looking: a lease that comes while we look must find that it has to wake us.
        self._next_look = inf
        if not self._is_running():
            return 0.0
        leases = list(self._leases.copy().values())
        if not leases:
            return None
        now = self._clock.monotonic()
        first_due = min(since + seconds / 3.0 for since, seconds in leases)
        earliest = now + min(seconds for _, seconds in leases) / LOOKS_PER_LEASE
        self._next_look = max(first_due, earliest)
        return self._next_look - now
