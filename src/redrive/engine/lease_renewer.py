"""Lease renewal, on a separate thread with its own database connection.

A renewer must not share an event loop with the work whose leases it renews: a blocked loop would lose all
leases. Its thread sleeps while no lease is due for renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from math import inf
from threading import Event, Thread, current_thread
from typing import Generic, TypeVar

from redrive.clock import Clock
from redrive.forking import StartsAnew, join_forks
from redrive.store.database import Database, Session

CHECKS_PER_LEASE = 12.0
"""How often the thread checks the leases at most during one lease, for example to retry a failed renewal."""

K = TypeVar("K", bound=Hashable)

Renew = Callable[[Session, Sequence[tuple[K, float]]], Awaitable[Mapping[K, bool]]]
"""Renews leases, given as keys and seconds. A missing key means a lost lease; False: held, not renewed."""


class LeaseRenewer(StartsAnew, Generic[K]):
    """Renews leases until they are dropped.

    `lost` is called with the keys that another holder has taken, or that could not be renewed in time. While
    the thread runs, it makes this call. A forked child holds no lease of its parent.
    """

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
        self._next_check = inf
        self._thread: Thread | None = None
        join_forks(self)

    def after_fork_in_child(self) -> None:
        self._leases, self._wake, self._next_check, self._thread = {}, Event(), inf, None

    def hold(self, key: K, seconds: float, since: float) -> None:
        """Renew this lease from now on. `since` is when it was acquired, on the monotonic clock."""
        self._leases[key] = since, seconds
        if since + seconds / 3.0 < self._next_check and self._thread is not None:
            self._wake.set()

    def drop(self, key: K) -> None:
        self._leases.pop(key, None)

    def has_expired(self, key: K) -> bool:
        """Whether another holder may have the lease, for example after this process was suspended.

        A lease that is no longer renewed also counts as expired: the call of `lost` is about to follow.
        """
        lease = self._leases.get(key)
        return lease is None or self._clock.monotonic() - lease[0] >= lease[1]

    def start(self) -> None:
        """Renew leases in the background until `stop`. Do nothing if already started."""
        if self._thread is None:
            self._thread = Thread(target=self._main, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join(timeout=1.0)  # it may be waiting for a network that does not respond

    async def renew(self, session: Session) -> None:
        """Renew the leases that have used up a third of their duration."""
        now = self._clock.monotonic()
        # Copied atomically: another thread adds and drops leases in the meantime.
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
        except Exception:  # noqa: BLE001 — the thread must continue to renew the other leases
            self._give_up([key for key, _ in due if self.has_expired(key)])
            return
        for key, seconds in due:
            if renewed.get(key) and key in self._leases:
                self._leases[key] = now, seconds
        self._give_up([key for key, _ in due if key not in renewed])

    def _give_up(self, keys: Sequence[K]) -> None:
        """Report lost leases, except those that were dropped in the meantime."""
        lost = [key for key in keys if self._leases.pop(key, None) is not None]
        if lost:
            self._lost(lost)

    def _main(self) -> None:
        asyncio.run(self._renew_until_stopped())

    async def _renew_until_stopped(self) -> None:
        database = self._database.another()
        while self._is_running():
            self._wake.wait(self._seconds_until_check())
            await self.renew(database)
        await database.close()

    def _is_running(self) -> bool:
        return self._thread is current_thread()

    def _seconds_until_check(self) -> float | None:
        self._wake.clear()
        # Set before reading the leases, so that a lease added in the meantime wakes this thread.
        self._next_check = inf
        if not self._is_running():
            return 0.0
        leases = list(self._leases.copy().values())
        if not leases:
            return None
        now = self._clock.monotonic()
        first_due = min(since + seconds / 3.0 for since, seconds in leases)
        earliest = now + min(seconds for _, seconds in leases) / CHECKS_PER_LEASE
        self._next_check = max(first_due, earliest)
        return self._next_check - now
