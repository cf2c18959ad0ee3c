"""What is in flight: the works of one worker, their leases, and the room that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from redrive.clock import Clock
from redrive.engine.lease_renewer import Key, LeaseRenewer
from redrive.engine.waiting import wait_for
from redrive.engine.work import Interruption, Work
from redrive.store.database import Database

ABANDON_SECONDS = 0.5


class InFlight:
    """`failed` is called with what has escaped the executor: a mistake of ours, and no step's failure."""

    def __init__(
        self, database: Database, clock: Clock, lease_seconds: float, failed: Callable[[BaseException], None]
    ) -> None:
        self.lease_renewer = LeaseRenewer(database, clock, lease_seconds, self._lost_from_thread)
        self.executing = 0
        self.room_made = asyncio.Event()
        self.landed = asyncio.Event()
        self.slots_freed: Callable[[], None] = lambda: None
        self._clock = clock
        self._failed = failed
        self._works: dict[str, Work] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._works)

    @property
    def works(self) -> list[Work]:
        return list(self._works.values())

    def knows(self, run_id: str) -> bool:
        return run_id in self._works

    def add(self, work: Work, since: float) -> None:
        """From here on its lease is kept, until it lands. `since` is when it was claimed, at the latest."""
        if self._loop is None or self._loop.is_closed():
            self._loop = (
                asyncio.get_running_loop()
            )  # not for every work: up to Python 3.11 it is a system call
        before = self._works.get(work.claim.id)
        if before is not None and before.claim.token != work.claim.token:
            before.interrupt(Interruption.LOST)
        self._works[work.claim.id] = work
        work.in_flight = self
        self.lease_renewer.hold(work.claim, since)

    def launch(self, work: Work, execute: Callable[[Work], Coroutine[Any, Any, None]]) -> None:
        loop = self._loop or asyncio.get_running_loop()
        self.executing += 1
        work.carrier = loop.create_task(self._fly(work, execute))
        if not work.carrier.done():  # an eager task may be
            self.tasks.add(work.carrier)

    async def abandon(self) -> None:
        """The worker ends, and nothing may go on without a lease. After a drain nothing is left."""
        for work in self.works:
            work.interrupt(Interruption.LOST)
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=ABANDON_SECONDS)

    def follow(self, work: Work, following: Work) -> None:
        """The next step of the same run goes on under the same lease."""
        following.in_flight = self
        following.carrier = work.carrier
        if self._works.get(work.claim.id) is work:
            self._works[work.claim.id] = following

    def remove(self, work: Work) -> None:
        """Nothing more will be written for this claim."""
        self.lease_renewer.drop(work.claim)
        if self._works.get(work.claim.id) is work:
            del self._works[work.claim.id]
        if work.slots is not None:
            self.slots_freed()
        self.landed.set()
        self.room_made.set()  # too many records that are not written yet leave no room either

    def interrupt(self, run_id: str, token: int, why: Interruption) -> None:
        work = self._works.get(run_id)
        if work is not None and work.claim.token == token:
            work.interrupt(why)

    def has_expired(self, work: Work) -> bool:
        return self.lease_renewer.has_expired(work.claim)

    async def wait_for_one(self, seconds: float) -> None:
        """Wait until something lands, at most so long."""
        await wait_for(self.landed, seconds, self._clock)
        self.landed.clear()

    async def _fly(self, work: Work, execute: Callable[[Work], Coroutine[Any, Any, None]]) -> None:
        try:
            await execute(work)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 — it is told; nobody else waits for it
            # Its lease is not kept any more: it will expire, and somebody will judge it.
            self.remove(self._works.get(work.claim.id, work))
            self._failed(error)
        finally:
            self.tasks.discard(work.carrier)
            self.executing -= 1
            self.room_made.set()

    def _lost_from_thread(self, keys: list[Key]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._lost, keys)

    def _lost(self, keys: list[Key]) -> None:
        """Fence ourselves: stop the handlers, and send nothing further for them."""
        for run_id, token in keys:
            self.interrupt(run_id, token, Interruption.LOST)
