"""The keeper of leases: renews them on a thread and a connection of its own.

It must not share a scheduler with the work it vouches for: a blocked event loop would lose all its leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread

from redrive.clock import Clock
from redrive.model.claim import Claim
from redrive.store.database import Database
from redrive.store.leases import Leases, Renewal

Key = tuple[str, int]


class LeaseRenewer:
    """`lost` is called with the leases that somebody else has, or that could not be renewed in time."""

    def __init__(
        self, database: Database, clock: Clock, lease_seconds: float, lost: Callable[[list[Key]], None]
    ) -> None:
        self._database = database
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._interval = lease_seconds / 3.0
        self._lost = lost
        self._held: dict[Key, float] = {}
        self._stop = Event()
        self._thread: Thread | None = None

    def hold(self, claim: Claim, since: float) -> None:
        """Keep this lease, claimed at `since` by the monotonic clock."""
        self._held[claim.id, claim.token] = since

    def drop(self, claim: Claim) -> None:
        self._held.pop((claim.id, claim.token), None)

    def start(self) -> None:
        self._stop.clear()
        self._thread = Thread(target=self._main, name="redrive-leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)  # it may be waiting for a network that is silent
            self._thread = None

    async def renew(self, leases: Leases) -> None:
        """Renew what is a third of its time old; say which are lost."""
        now = self._clock.monotonic()
        # Copied in one go: claims come and go on another thread meanwhile.
        due = [key for key, since in self._held.copy().items() if now - since >= self._interval]
        if not due:
            return
        try:
            async with asyncio.timeout(self._interval):
                renewed = await leases.renew([Renewal(*key, self._lease_seconds) for key in due])
        except Exception:  # noqa: BLE001 — whatever it is, the leases are not renewed, and the others must be
            self._fence([key for key in due if self._is_over(key)])
            return
        for key in due:
            if renewed.get(key) and key in self._held:  # what is only kept is tried again soon
                self._held[key] = now
        self._fence([key for key in due if key not in renewed])

    def has_expired(self, claim: Claim) -> bool:
        """As when the process was frozen: others may have the lease by now. If it is no longer kept, the news
        of its loss is on its way."""
        return self._is_over((claim.id, claim.token))

    def _is_over(self, key: Key) -> bool:
        since = self._held.get(key)
        return since is None or self._clock.monotonic() - since >= self._lease_seconds

    def _fence(self, keys: list[Key]) -> None:
        """What has ended in the meantime was not lost."""
        lost = [key for key in keys if self._held.pop(key, None) is not None]
        if lost:
            self._lost(lost)

    def _main(self) -> None:
        asyncio.run(self._renew_until_stopped())

    async def _renew_until_stopped(self) -> None:
        database = self._database.another()
        leases = Leases(database)
        while not self._stop.wait(self._interval / 4.0):
            await self.renew(leases)
        await database.close()
