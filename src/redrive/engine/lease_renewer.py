"""Lease renewal, on a separate thread with its own database connection.

A renewer must not share an event loop with the work whose leases it renews: a blocked loop would lose all
leases. Its thread sleeps while no lease is due for renewal. It gives a lease up before the lease can have
ended, by a local deadline: a renewal that waits for a silent network delays no deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Thread, current_thread
from typing import Generic, Protocol, TypeVar

from redrive.clock import Clock
from redrive.forking import ResetInChild, join_forks
from redrive.store.database import Database, Session

CHECKS_PER_LEASE = 12.0
"""How often the thread checks the leases at most during one lease, for example to retry a failed renewal."""
WATCH_SECONDS = 5.0
"""How often the thread asks the watch at least, while there are leases or the watch awaits an answer."""
STOP_SECONDS = 1.0
"""How long `stop` waits for the thread, which may be waiting for a network that does not respond."""

K = TypeVar("K", bound=Hashable)

Renew = Callable[[Session, Sequence[tuple[K, float]]], Awaitable[Mapping[K, bool]]]
"""Renews leases, given as keys and seconds. A missing key means a lost lease; False: held, not renewed."""


class HolderWatch(Protocol):
    """Observes whether the holder of the leases can still use them."""

    @property
    def awaits_answer(self) -> bool:
        """Whether the holder is silent. The thread then goes on asking and reporting without any lease."""

    def vouches(self) -> bool:
        """Return False if the leases must not be renewed. The thread asks several times per lease."""

    async def report(self, session: Session) -> None:
        """Store what prevents the holder from working, if anything does."""


class LeaseRenewer(ResetInChild, Generic[K]):
    """Renews leases until they are dropped, as long as the watch, if there is one, vouches for the holder.

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
        watch: HolderWatch | None = None,
    ) -> None:
        self._name = name
        self._database = database
        self._clock = clock
        self._renew = renew
        self._lost = lost
        self._watch = watch
        self._leases: dict[K, tuple[float, float]] = {}
        self._next_check = inf
        self._thread: Thread | None = None
        self._wake: Callable[[], object] | None = None
        join_forks(self)

    def after_fork_in_child(self) -> None:
        self._leases, self._wake, self._next_check, self._thread = {}, None, inf, None

    def hold(self, key: K, seconds: float, since: float) -> None:
        """Renew this lease from now on. `since` is when it was acquired, on the monotonic clock."""
        self._leases[key] = since, seconds
        due = since + seconds / 3.0
        if due < self._next_check:
            self._next_check = due  # one wake-up is enough for a batch
            self._wake_thread()

    def drop(self, key: K) -> None:
        self._leases.pop(key, None)

    def has_expired(self, key: K) -> bool:
        """Whether another holder may have the lease, for example after this process was suspended.

        A lease that is no longer renewed also counts as expired: the call of `lost` is about to follow.
        """
        lease = self._leases.get(key)
        return lease is None or self._clock.monotonic() >= deadline(*lease)

    def start(self) -> None:
        """Renew leases in the background until `stop`. Do nothing if already started."""
        if self._thread is None:
            self._thread = Thread(target=self._main, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake_thread()
            thread.join(timeout=STOP_SECONDS)

    async def renew(self, session: Session) -> None:
        """Renew the leases that have used up a third of their duration. Give up those that have expired."""
        self.give_up_expired()
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
            self.give_up_expired()
            return
        for key, seconds in due:
            if renewed.get(key) and key in self._leases:
                self._leases[key] = now, seconds
        self._give_up([key for key, _ in due if key not in renewed])

    def give_up_expired(self) -> None:
        """Report the leases whose deadline has passed. This needs no database and waits for nothing."""
        now = self._clock.monotonic()
        self._give_up([key for key, lease in self._leases.copy().items() if now >= deadline(*lease)])

    def _give_up(self, keys: Sequence[K]) -> None:
        """Report lost leases, except those that were dropped in the meantime."""
        lost = [key for key in keys if self._leases.pop(key, None) is not None]
        if lost:
            self._lost(lost)

    # The thread

    def _main(self) -> None:
        asyncio.run(self._renew_until_stopped())

    async def _renew_until_stopped(self) -> None:
        database, woken = self._database.another(), asyncio.Event()
        loop = asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(woken.set)
        talking: asyncio.Task[None] | None = None
        while self._is_running():
            woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), self._seconds_until_check())
            self.give_up_expired()
            vouches = self._watch is None or self._watch.vouches()
            if talking is None or talking.done():  # otherwise the network is slow or silent
                talking = asyncio.create_task(self._talk(database, vouches))
        self._wake = None
        if talking is not None:
            talking.cancel()
            await asyncio.wait({talking})
        await database.close()

    async def _talk(self, database: Database, vouches: bool) -> None:
        if vouches:
            await self.renew(database)
        if self._watch is not None:
            with suppress(Exception):  # the database is away: the watch reports again
                await self._watch.report(database)

    def _wake_thread(self) -> None:
        wake = self._wake
        if wake is not None:
            with suppress(RuntimeError):  # the thread has just ended
                wake()

    def _is_running(self) -> bool:
        return self._thread is current_thread()

    def _seconds_until_check(self) -> float | None:
        # Set before reading the leases, so that a lease added in the meantime wakes this thread.
        self._next_check = inf
        if not self._is_running():
            return 0.0
        leases = list(self._leases.copy().values())
        if not leases:
            return WATCH_SECONDS if self._watch is not None and self._watch.awaits_answer else None
        now = self._clock.monotonic()
        interval = min(seconds for _, seconds in leases) / CHECKS_PER_LEASE
        first_due = min(since + seconds / 3.0 for since, seconds in leases)
        self._next_check = max(first_due, now + interval)
        if self._watch is not None:
            self._next_check = now + min(interval, WATCH_SECONDS)
        first_deadline = min(deadline(since, seconds) for since, seconds in leases)
        return max(0.0, min(self._next_check, first_deadline) - now)


def deadline(since: float, seconds: float) -> float:
    """Return when the holder of a lease must have stopped: a moment before the lease can have ended."""
    return since + seconds - min(1.0, seconds / 20.0)
