"""The work in flight in one worker, and its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from redrive.clock import Clock
from redrive.engine.lease_renewer import LeaseRenewer
from redrive.engine.loop_watch import LoopWatch, Silence
from redrive.engine.signals import Signals, wait_for
from redrive.engine.work import Interruption, Work
from redrive.store.database import Database, Session
from redrive.store.leases import Leases, Renewal
from redrive.store.limits import Limits

RunLease = tuple[str, int]
"""The id of a run and the token of its claim."""


async def renew_runs(session: Session, leases: Sequence[tuple[RunLease, float]]) -> Mapping[RunLease, bool]:
    renewals = [Renewal(id=run_id, token=token, ttl=seconds) for (run_id, token), seconds in leases]
    return await Leases(session).renew(renewals)


class InFlight:
    """
    bytes      the size of the inputs of the work, as claimed
    removed    set when work was removed
    room_made  set when work was removed or its execution has finished
    """

    def __init__(
        self, database: Database, clock: Clock, lease_seconds: float, signals: Signals, worker_id: str
    ) -> None:
        self.loop_watch = LoopWatch(clock, lease_seconds, self._executed_by, self._note_blocked)
        self.lease_renewer = LeaseRenewer(
            "redrive-leases", database, clock, renew_runs, self._lost_from_thread, self.loop_watch
        )
        self._worker_id = worker_id
        self.room_made = asyncio.Event()
        self.removed = asyncio.Event()
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._signals = signals
        self._works: dict[str, Work] = {}
        self._sizes: dict[str, int] = {}
        self.bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._works)

    @property
    def works(self) -> list[Work]:
        return list(self._works.values())

    def knows(self, run_id: str) -> bool:
        return run_id in self._works

    def add(self, work: Work, since: float) -> None:
        """Add work and renew its lease until it is removed. `since` is the time of its claim."""
        if self._loop is None or self._loop.is_closed():
            # Not on every call: up to Python 3.11, this is a system call.
            self._loop = asyncio.get_running_loop()
            self.loop_watch.attach(self._loop)
        before = self._works.get(work.claim.id)
        if before is not None and before.claim.token != work.claim.token:
            before.interrupt(Interruption.LOST)
        self._works[work.claim.id] = work
        self._count_bytes(work.claim.id, work.claim.size)
        self.lease_renewer.hold(_lease_of(work), self._lease_seconds, since)

    def remove(self, work: Work) -> None:
        """Remove work and stop renewing its lease: nothing more will be written for this claim."""
        self.lease_renewer.drop(_lease_of(work))
        if self._works.get(work.claim.id) is work:
            del self._works[work.claim.id]
            self._count_bytes(work.claim.id, 0)
        if work.slots is not None:
            self._signals.due.set()
        self.removed.set()
        self.room_made.set()  # the claimer also waits for room if too many records are pending

    def interrupt(self, run_id: str, token: int, why: Interruption) -> None:
        work = self._works.get(run_id)
        if work is not None and work.claim.token == token:
            work.interrupt(why)

    def has_expired(self, work: Work) -> bool:
        return self.lease_renewer.has_expired(_lease_of(work))

    async def wait_for_one(self, seconds: float) -> None:
        """Wait until work is removed, at most that many seconds."""
        await wait_for(self.removed, seconds, self._clock)
        self.removed.clear()

    def _count_bytes(self, run_id: str, size: int) -> None:
        self.bytes += size - self._sizes.pop(run_id, 0)
        if size:
            self._sizes[run_id] = size

    def _executed_by(self, carrier: object) -> Work | None:
        """Return the work that an asyncio task executes."""
        return (
            None if carrier is None else next((work for work in self.works if work.carrier is carrier), None)
        )

    def reason_for_silence(self) -> str:
        """Say why the event loop does not answer, from another thread."""
        work = self._executed_by(None if self._loop is None else asyncio.current_task(self._loop))
        if work is None:
            return "its event loop does not answer"
        return f"step {work.step.name!r} of run {work.claim.id} blocks its event loop"

    async def _note_blocked(self, session: Session, silence: Silence) -> None:
        await Limits(session).note_blocked(self._worker_id, silence.seconds, silence.step)

    def _lost_from_thread(self, leases: list[RunLease]) -> None:
        for run_id, token in leases:
            work = self._works.get(run_id)
            if work is not None and work.claim.token == token:
                with suppress(ValueError):  # its process has just been closed
                    work.revoke()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._lost, leases)

    def _lost(self, leases: list[RunLease]) -> None:
        """Interrupt the work whose leases are lost. Nothing more is written for it."""
        for run_id, token in leases:
            self.interrupt(run_id, token, Interruption.LOST)


def _lease_of(work: Work) -> RunLease:
    return work.claim.id, work.claim.token
