"""The claimer: claims ready runs in batches while the worker has free slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from redrive.engine.look_back import LookBack
from redrive.engine.recording import unreadable_record
from redrive.engine.signals import wait_for
from redrive.engine.work import Work
from redrive.engine.worker_parts import WorkerParts
from redrive.errors import RedriveError
from redrive.model.claim import Claim
from redrive.store.leases import FROM_THE_BEGINNING, Holder
from redrive.store.record import Recorded

MAX_PENDING_RECORDS = 2_000
UNREADABLE_DELAY_SECONDS = 60.0
BATCHING_SECONDS = 0.005
MIN_CLAIM_SIZE = 50
"""A claim takes at most half of the slots, or this many if that is more: the worker executes one half while
it claims the other."""
SIZED_CLAIMS = 8
"""A claim is limited in bytes if as many of the largest payload of this many claims would not fit."""
MAX_ALONE_WAIT_SECONDS, ALONE_INTERVAL_SECONDS = 10.0, 60.0
"""How long other work may take to finish before an isolated run is released, and when it is claimed again."""

_UNREADABLE = (RedriveError, LookupError, TypeError, ValueError)

MIN_LOOK_BACK_SECONDS = 0.25
"""The minimum time between two claims from the start of a deep queue. Retries sort before the floor."""


class Claimer:
    """`polled_at` is the time of the last claim on the monotonic clock."""

    def __init__(self, parts: WorkerParts) -> None:
        self._worker_id = parts.id
        self._code_version = parts.code_version
        self._options = parts.options
        self._store = parts.store
        self._clock = parts.clock
        self._ids = parts.ids
        self._retrier = parts.retrier
        self._signals = parts.signals
        self._in_flight = parts.in_flight
        self._works = parts.works
        self._gate = parts.gate
        self._known_work = parts.known_work
        self._executor = parts.executor
        self._failure_handler = parts.failure_handler
        self._recorder = parts.recorder
        self._reporter = parts.reporter
        self._seconds_until_poll = parts.seconds_until_poll
        self.polled_at = parts.clock.monotonic()
        self._isolated_queues: list[str] = []
        self._alone_after = 0.0
        self._turn = 0
        self._look_backs: dict[str, LookBack] = {}
        self._largest = deque[int](maxlen=SIZED_CLAIMS)
        self._may_be_cut = False
        self._unsure: tuple[int, float] | None = None

    async def run(self) -> None:
        """Claim runs whenever there are free slots, until the worker stops."""
        stopping, ready = self._signals.stopping, self._signals.ready
        while not stopping.is_set():
            room = await self.wait_for_room()
            if stopping.is_set():
                return
            ready.clear()
            claimed = await self._retrier.run("claim", partial(self.claim, room))
            self.polled_at = self._clock.monotonic()
            if claimed < room and not self._may_be_cut:
                await wait_for(ready, self._seconds_until_poll(), self._clock)

    # Free slots

    def free(self) -> int:
        if self._recorder.pending >= MAX_PENDING_RECORDS:
            return 0
        return self._options.concurrency - self._executor.executing if self._free_bytes() > 0 else 0

    def _free_bytes(self) -> int:
        return self._options.payload_bytes - self._in_flight.bytes

    def _max_bytes(self, room: int) -> int | None:
        """Return the limit of a claim in bytes; None if as many of the largest claimed lately fit."""
        free = self._free_bytes()
        fits = bool(self._largest) and room * max(self._largest) <= free
        return None if fits else max(1, free)

    async def wait_for_room(self) -> int:
        """Wait for free slots and return how many runs to claim.

        If fewer than a quarter of the slots are free, wait a moment for more: large batches are cheaper.
        """
        if 0 < self.free() < self._options.concurrency // 4:
            self._in_flight.room_made.clear()
            await wait_for(self._in_flight.room_made, BATCHING_SECONDS, self._clock)
        while self.free() <= 0 and not self._signals.stopping.is_set():
            self._in_flight.room_made.clear()
            await wait_for(self._in_flight.room_made, self._options.poll_seconds, self._clock)
        return min(self.free(), max(MIN_CLAIM_SIZE, self._options.concurrency // 2))

    # Claims

    async def claim(self, room: int) -> int:
        """Claim up to `room` runs and start executing them. Return how many were claimed."""
        await self.adopt()
        self._turn += 1
        self._may_be_cut = False
        if self._isolated_queues and self._clock.monotonic() >= self._alone_after:
            claimed = await self._claim_alone(self._isolated_queues.pop(0))
            if claimed or self._signals.stopping.is_set():
                return claimed
        claimed = 0
        workflows = self._known_work.to_claim
        for queue in await self._queues():
            if self._signals.stopping.is_set():
                break
            claimed += await self._claim_from(queue, room - claimed, workflows)
            if claimed >= room or self._may_be_cut:
                break
        return claimed

    def isolate(self, queues: Sequence[str]) -> None:
        """Note the queues with runs that must be executed alone because they may have crashed workers."""
        self._isolated_queues = list(queues)
        if queues:
            self._signals.ready.set()

    async def adopt(self) -> None:
        """Take the runs of a claim whose response never arrived, in case the claim was committed."""
        if self._unsure is None:
            return
        token, since = self._unsure
        claims = await self._store.leases.adopt(token, self._worker_id)
        await self._take([claim for claim in claims if not self._in_flight.knows(claim.id)], since)
        self._unsure = None

    async def _queues(self) -> list[str]:
        """The queues to claim from, in round-robin order."""
        queues = self._options.queues
        if len(queues) == 1:
            return list(queues)
        ready = await self._store.leases.ready_queues(queues)
        first = self._turn % len(queues)
        return [queue for queue in queues[first:] + queues[:first] if queue in ready]

    async def _claim_from(self, queue: str, room: int, workflows: Sequence[str]) -> int:
        look_back = self._look_backs.get(queue)
        if look_back is None:
            look_back = self._look_backs[queue] = LookBack(self._clock, MIN_LOOK_BACK_SECONDS)
        floor = look_back.floor()
        claimed = await self._claim_ready(queue, room, workflows, look_back, floor)
        is_done = claimed >= room or self._may_be_cut or self._signals.stopping.is_set()
        if floor > FROM_THE_BEGINNING and not is_done:
            more = await self._claim_ready(queue, room - claimed, workflows, look_back, FROM_THE_BEGINNING)
            claimed += more
        return claimed

    async def _claim_ready(
        self, queue: str, room: int, workflows: Sequence[str], look_back: LookBack, floor: float
    ) -> int:
        async def claim(holder: Holder) -> list[Claim]:
            leases, since = self._store.leases, self._clock.monotonic()
            max_bytes = self._max_bytes(room)
            claims = await leases.claim(queue, room, holder, workflows, floor, max_bytes)
            if claims:
                self._largest.append(max(claim.size for claim in claims))
            self._may_be_cut = max_bytes is not None and sum(claim.size for claim in claims) >= max_bytes
            is_deep = len(claims) == room
            look_back.looked(floor, since, claims[-1].sort_key if is_deep else FROM_THE_BEGINNING)
            return claims

        return await self._claim_and_take(claim)

    async def _claim_alone(self, queue: str) -> int:
        """Claim a run that may have crashed a worker, and execute it alone or release it.

        It is claimed before other work has finished, so that no other worker waits to run it too.
        """
        leases, workflows = self._store.leases, self._known_work.to_claim
        self._alone_after = self._clock.monotonic() + ALONE_INTERVAL_SECONDS
        return await self._claim_and_take(
            lambda holder: leases.claim_alone(queue, holder, workflows), self._take_alone
        )

    async def _take_alone(self, claims: Sequence[Claim], since: float) -> None:
        works = [work for claim in claims if (work := await self.readable(claim, since)) is not None]
        end = self._clock.monotonic() + MAX_ALONE_WAIT_SECONDS
        while self._has_others(works) and self._clock.monotonic() < end:
            await self._in_flight.wait_for_one(self._options.poll_seconds)
        if self._has_others(works) or self._signals.stopping.is_set():
            for work in works:
                self._executor.give_back(work)
            return
        for work in works:
            await self._retrier.run("claim", partial(self._store.leases.begin_alone, work.claim))
        await self._take_through(works)
        while any(work in self._in_flight.works for work in works) and not self._signals.stopping.is_set():
            await self._in_flight.removed.wait()
            self._in_flight.removed.clear()
        self._alone_after = 0.0

    def _has_others(self, works: Sequence[Work]) -> bool:
        return len(self._in_flight) > len(works) and not self._signals.stopping.is_set()

    async def _claim_and_take(
        self,
        claim: Callable[[Holder], Awaitable[Sequence[Claim]]],
        take: Callable[[Sequence[Claim], float], Awaitable[None]] | None = None,
    ) -> int:
        token, since = self._unsure = self._ids.token(), self._clock.monotonic()
        lease_seconds = self._options.lease_seconds
        claims = await claim(
            Holder(token=token, worker=self._worker_id, code_version=self._code_version, ttl=lease_seconds)
        )
        await (take or self._take)(claims, since)
        self._unsure = (
            None  # not earlier: if the worker stops before this, `adopt` takes the rest of the claim
        )
        return len(claims)

    async def _take(self, claims: Sequence[Claim], since: float) -> None:
        works = [work for claim in claims if (work := await self.readable(claim, since)) is not None]
        await self._take_through(works)

    async def _take_through(self, works: Sequence[Work]) -> None:
        for work in works:
            if work.claim.cancel_requested_at is not None:
                self._failure_handler.cancelled(work)
        works = [work for work in works if work.claim.cancel_requested_at is None]
        if not any(work.is_bound for work in works):
            self._executor.launch(works)
            return
        try:
            await self._pass(works)
        except Exception as error:  # noqa: BLE001 — no error here may end the worker
            await self._pass_separately(works, error)

    async def _pass(self, works: Sequence[Work]) -> None:
        passage = await self._retrier.run("gate", lambda: self._gate.pass_(works))
        for work, held_by, refusal in passage.held:
            self._failure_handler.hold(work, held_by, None if refusal is None else refusal.retry_after)
        for work in passage.lost:
            self._reporter.lost(work)
        self._executor.launch(passage.admitted)  # last: launched work must not pass the gate a second time

    async def _pass_separately(self, works: Sequence[Work], error: Exception) -> None:
        if len(works) == 1:
            evidence = self._failure_handler.classify(works[0], error)
            verdict = self._failure_handler.decide(works[0], evidence, error)
            self._failure_handler.record(works[0], verdict, 0.0)
            return
        for work in works:
            await self._take_through([work])

    async def readable(self, claim: Claim, since: float | None = None) -> Work | None:
        """Create the work of a claim. If the row cannot be read, postpone this run and return None."""
        try:
            work = self._works.known(claim) or await self._works.of(claim)
        except _UNREADABLE as error:
            record = unreadable_record(claim, UNREADABLE_DELAY_SECONDS, lost=since is None)
            self._recorder.put(record, self._recorded_unreadable)
            self._retrier.report_failure("read", f"run {claim.id}: {error}", UNREADABLE_DELAY_SECONDS)
            return None
        self._in_flight.add(work, self._clock.monotonic() if since is None else since)
        return work

    def _recorded_unreadable(self, recorded: Recorded | None) -> None:
        self._in_flight.removed.set()
        if recorded is not None:
            self._reporter.changed_besides(recorded)
