"""The worker: claims what is ready, has it executed, and takes over what others have lost.

Several loops run side by side until the worker is told to stop: `claim` takes work while there is room,
`promote` makes due what has waited and releases what was held, `maintain` takes over expired leases and
passes on cancellations, and the recorder and the breakers write what they have gathered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from redrive.engine.breakers import HELD_BY_BREAKER
from redrive.engine.executor import Executor
from redrive.engine.gate import HELD_BY_LIMIT, Gate
from redrive.engine.keeper import Keeper, Key
from redrive.engine.patience import Patience
from redrive.engine.signals import until_signalled
from redrive.engine.waiting import wait_for
from redrive.engine.work import Interruption, Work
from redrive.errors import RedriveError, StoreUnavailableError
from redrive.model.claim import Claim
from redrive.model.event import HeldReleased, WorkerStarted, WorkerStopped, WorkerStopping
from redrive.policy.codec import encode
from redrive.store.leases import Holder
from redrive.store.records import Record, Rescheduled

MOST_PENDING_RECORDS = 2_000
LARGEST_PROMOTION = 500
LARGEST_RECLAIM = 100
UNREADABLE_DELAY = 60.0
UNHEALTHY_AFTER = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker does, and how much of it at once."""

    queues: tuple[str, ...]
    workflows: tuple[str, ...] | None = None
    concurrency: int = 100
    lease_seconds: float = 60.0
    poll_seconds: float = 1.0
    grace_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    retention_seconds: float | None = 30 * 86_400.0


@dataclass(slots=True)
class Health:
    """Liveness is the time since the database was last polled successfully."""

    healthy: bool
    seconds_since_poll: float
    in_flight: int


class Worker:
    def __init__(
        self, executor: Executor, gate: Gate, patience: Patience, options: WorkerOptions, code_version: str
    ) -> None:
        self._executor = executor
        self._store = executor.store
        self._clock = executor.clock
        self._gate = gate
        self._patience = patience
        self.options = options
        self._code_version = code_version
        self.id = executor.ids.new()
        self._flight: dict[str, Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._executing = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._due = asyncio.Event()
        self._landed = asyncio.Event()
        self._soonest: float | None = None
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._last_poll = self._clock.monotonic()
        self._turn = 0
        self._requeued = 0
        self._unsure: int | None = None
        self._lonely: set[str] = set()
        executor.due_in = self._due_in
        self.keeper = Keeper(self._store.database, self._clock, options.lease_seconds, self._lost_from_thread)
        self._loop: asyncio.AbstractEventLoop | None = None

    # Running and stopping

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop` is called; with `signals`, SIGTERM and SIGINT call it. A second one hurries."""
        self._loop = asyncio.get_running_loop()
        self._stopping.clear()
        self._executor.stopping = False
        self._executor.teller.tell(WorkerStarted(self.id, self.options.queues, self.options.concurrency))
        async with AsyncExitStack() as stack:
            if signals:
                stack.enter_context(until_signalled(self.stop))
            await stack.enter_async_context(self._store.database.listen(self._heard))
            own_thread = not self._store.database.in_memory
            if own_thread:
                self.keeper.start()
                stack.callback(self.keeper.stop)
            loops = [self._claim_loop, self._promote_loop, self._maintain_loop]
            background = [self._executor.recorder.run, self._executor.breakers.run]
            if not own_thread:
                background.append(self._renew_loop)
            async with _running([*loops, *background]) as tasks:
                await self._until_stopped(tasks)
                await self._drain(tasks[: len(loops)])
        self._executor.teller.tell(WorkerStopped(self.id, self._requeued))

    def stop(self) -> None:
        """Claim nothing more and finish what is in flight; called again: give it back at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._executor.stopping = True
        for each in (self._wake, self._room, self._due):
            each.set()

    def health(self) -> Health:
        since = self._clock.monotonic() - self._last_poll
        return Health(since < UNHEALTHY_AFTER, since, len(self._flight))

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """A loop that ends by an error of ours must not leave a worker that looks alive."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in tasks:
            if task.done() and not self._stopping.is_set():
                task.result()

    async def _drain(self, loops: Sequence[asyncio.Task[None]]) -> None:
        grace = self.options.grace_seconds
        self._executor.teller.tell(WorkerStopping(self.id, len(self._flight), grace))
        await asyncio.wait(loops, timeout=min(5.0, grace))
        await _cancel(loops)
        if self._unsure is not None:
            with suppress(StoreUnavailableError):
                await self._adopt(self._unsure)
        await self._landing(grace, self._hurry)
        left = list(self._flight.values())
        self._requeued = len(left)
        for work in left:
            work.interrupt(Interruption.DRAINED)
        await self._landing(grace, None)
        await self._executor.breakers.flush()
        with suppress(StoreUnavailableError):
            await self._heartbeat("stopped")

    async def _landing(self, seconds: float, hurry: asyncio.Event | None) -> None:
        """Wait until nothing is in flight and everything is written, or the time is over."""
        end = self._clock.monotonic() + seconds
        while (self._flight or self._executor.recorder.pending) and self._clock.monotonic() < end:
            if hurry is not None and hurry.is_set():
                return
            await wait_for(self._landed, min(0.05, seconds), self._clock)
            self._landed.clear()

    async def work_off(self) -> int:
        """Execute what is ready, and what becomes ready by that, until nothing is: how many. For tests."""
        executed = 0
        async with _running([self._executor.recorder.run]):
            while True:
                await self.maintain()
                await self.promote()
                claimed = await self.claim(self.options.concurrency)
                while self._flight or self._executor.recorder.pending:
                    await self._landed.wait()
                    self._landed.clear()
                await self._executor.breakers.flush()
                if not claimed:
                    return executed
                executed += claimed

    # Claiming

    async def _claim_loop(self) -> None:
        while not self._stopping.is_set():
            room = await self._wait_for_room()
            if self._stopping.is_set():
                return
            claimed = await self._patience.persist("claim", partial(self.claim, room))
            self._last_poll = self._clock.monotonic()
            if claimed < room:
                await wait_for(self._wake, self._jittered(self.options.poll_seconds), self._clock)
                self._wake.clear()

    async def _wait_for_room(self) -> int:
        """Wait until a good part is free, but not long when only little is: large batches are cheap."""
        enough = max(1, self.options.concurrency // 4)
        if 0 < self._free() < enough:
            self._room.clear()
            await wait_for(self._room, 0.005, self._clock)
        while self._free() <= 0 and not self._stopping.is_set():
            self._room.clear()
            await wait_for(self._room, self.options.poll_seconds, self._clock)
        return self._free()

    def _free(self) -> int:
        if self._executor.recorder.pending >= MOST_PENDING_RECORDS:
            return 0
        return self.options.concurrency - self._executing

    async def claim(self, room: int) -> int:
        """Claim up to `room` runs and set them going; how many there were."""
        if self._unsure is not None:
            await self._adopt(self._unsure)
        self._turn += 1
        if self._lonely:
            return await self._claim_alone(self._lonely.pop())
        claimed = 0
        for queue in await self._queues_to_claim():
            claimed += await self._claim_from(queue, room - claimed)
            if claimed >= room:
                break
        return claimed

    async def _queues_to_claim(self) -> list[str]:
        """Every queue gets its turn to be asked first."""
        queues = self.options.queues
        if len(queues) == 1:
            return list(queues)
        ready = await self._store.leases.ready_queues(queues)
        turned = queues[self._turn % len(queues) :] + queues[: self._turn % len(queues)]
        return [queue for queue in turned if queue in ready]

    async def _claim_from(self, queue: str, room: int) -> int:
        since = self._clock.monotonic()
        holder = self._holder()
        self._unsure = holder.token
        claims = await self._store.leases.claim(queue, room, holder, self.options.workflows)
        self._unsure = None
        await self._take(claims, since)
        return len(claims)

    async def _claim_alone(self, queue: str) -> int:
        """Something that is suspected of killing its worker gets one for itself."""
        while self._flight and not self._stopping.is_set():
            await wait_for(self._landed, self.options.poll_seconds, self._clock)
            self._landed.clear()
        since = self._clock.monotonic()
        holder = self._holder()
        self._unsure = holder.token
        claims = await self._store.leases.claim_alone(queue, holder, self.options.workflows)
        self._unsure = None
        await self._take(claims, since)
        while self._flight and not self._stopping.is_set():
            await wait_for(self._landed, self.options.poll_seconds, self._clock)
            self._landed.clear()
        return len(claims)

    async def _adopt(self, token: int) -> None:
        """The answer to a claim never arrived; take what was committed nevertheless."""
        claims = await self._store.leases.adopt(token, self.id)
        self._unsure = None
        await self._take([each for each in claims if each.id not in self._flight], self._clock.monotonic())

    def _holder(self) -> Holder:
        return Holder(self._executor.ids.token(), self.id, self._code_version, self.options.lease_seconds)

    async def _take(self, claims: Sequence[Claim], since: float) -> None:
        if not claims:
            return
        works = [work for claim in claims if (work := await self._readable(claim, since)) is not None]
        bound = any(work.is_bound for work in works)
        passage = await self._patience.persist("gate", lambda: self._gate.pass_(works)) if bound else None
        for work in works if passage is None else passage.admitted:
            self._launch(work)
        for work, held_by, refusal in [] if passage is None else passage.held:
            self._executor.hold(work, held_by, None if refusal is None else refusal.retry_after)

    async def _readable(self, claim: Claim, since: float) -> Work | None:
        self.keeper.hold(claim, since)
        try:
            work = await self._patience.persist("definition", lambda: self._executor.work_of(claim))
        except (RedriveError, LookupError, TypeError, ValueError) as error:
            self._postpone_unreadable(claim, error)
            return None
        self._flight[claim.id] = work
        work.when_done(self._land)
        return work

    def _postpone_unreadable(self, claim: Claim, error: Exception) -> None:
        """A row that cannot be read must not stop the others, nor be lost."""
        self._executor.recorder.put(_postponed(claim), lambda won: self.keeper.drop(claim))
        self._patience.tell_failure("definition", f"run {claim.id}: {error}", UNREADABLE_DELAY)

    def _launch(self, work: Work) -> None:
        self._executing += 1
        task = asyncio.create_task(self._executor.execute(work))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._executing -= 1
        self._room.set()
        if not task.cancelled() and task.exception() is not None:
            # Its lease will expire, and somebody will judge it.
            self._patience.tell_failure("execute", repr(task.exception()), self.options.lease_seconds)

    def _land(self, work: Work) -> None:
        self.keeper.drop(work.claim)
        self._flight.pop(work.claim.id, None)
        self._landed.set()

    # What time brings

    async def _promote_loop(self) -> None:
        while not self._stopping.is_set():
            self._soonest = None
            self._due.clear()
            again = await self._patience.persist("promote", self.promote)
            if again:
                continue
            wait = self._jittered(self.options.poll_seconds)
            if self._soonest is not None:
                wait = min(wait, max(0.0, self._soonest - self._clock.monotonic()))
            await wait_for(self._due, wait, self._clock)

    async def promote(self) -> bool:
        """Make ready what has become due, and release what need not be held any more; is there more of it?"""
        due = await self._store.leases.promote(LARGEST_PROMOTION)
        released, more = await self._release_held()
        if due or released:
            self._wake.set()
        next_due = await self._store.leases.next_due()
        if next_due is not None:
            self._due_in(max(0.0, next_due), wake=False)
        return len(due) == LARGEST_PROMOTION or more

    async def _release_held(self) -> tuple[int, bool]:
        count, more = 0, False
        for holder in await self._store.holds.holders():
            if holder.startswith(HELD_BY_BREAKER):
                queues, again = await self._executor.breakers.tend(holder.removeprefix(HELD_BY_BREAKER))
            else:
                queues, again = await self._release_by_limit(holder), False
            if queues:
                self._executor.teller.tell(HeldReleased(holder, len(queues)))
            count += len(queues)
            more = more or (again and bool(queues))
        return count, more

    async def _release_by_limit(self, holder: str) -> list[str]:
        free = await self._store.holds.free_of(holder.removeprefix(HELD_BY_LIMIT))
        return [each.queue for each in await self._store.holds.release(holder, free)] if free > 0 else []

    def _due_in(self, seconds: float, *, wake: bool = True) -> None:
        """Something will be due in so many seconds: do not sleep beyond it."""
        at = self._clock.monotonic() + seconds
        if self._soonest is None or at < self._soonest:
            self._soonest = at
            if wake:
                self._due.set()

    # Looking after the others

    async def _maintain_loop(self) -> None:
        heartbeat = retention = self._clock.monotonic()
        while not self._stopping.is_set():
            await self._patience.persist("maintain", self.maintain)
            now = self._clock.monotonic()
            if now >= heartbeat:
                await self._patience.persist("heartbeat", lambda: self._heartbeat("running"))
                heartbeat = now + self.options.heartbeat_seconds
            if now >= retention:
                more = await self._patience.persist("retention", self.remove_expired)
                retention = now + (1.0 if more else 60.0)
            await wait_for(self._stopping, self._jittered(self.options.poll_seconds), self._clock)

    async def maintain(self) -> None:
        """Take over expired leases and pass on cancellations."""
        await self.reclaim()
        self._lonely = await self._store.leases.lonely_queues(self.options.queues)
        if self._lonely:
            self._wake.set()
        for run_id, token in await self._store.leases.cancelling(self.id):
            work = self._flight.get(run_id)
            if work is not None and work.claim.token == token:
                work.interrupt(Interruption.CANCELLED)
        await self._note_progress()
        self._last_poll = self._clock.monotonic()

    async def _note_progress(self) -> None:
        noted = [work for work in self._flight.values() if work.progress is not None]
        if noted:
            await self._store.records.note_progress([work.take_progress() for work in noted])

    async def reclaim(self) -> int:
        """Judge attempts whose workers have let their leases expire; how many."""
        token = self._executor.ids.token()
        claims = await self._store.leases.reclaim(token, self.options.lease_seconds, LARGEST_RECLAIM)
        for claim in claims:
            work = await self._readable(claim, self._clock.monotonic())
            if work is not None:
                self._executor.settle_lost(work)
        return len(claims)

    async def remove_expired(self) -> bool:
        """Remove old finished runs, a few at a time; is there more of it?"""
        age = self.options.retention_seconds
        if age is None:
            return False
        await self._store.holds.forget_workers(86_400.0)
        return await self._store.runs.remove_expired(age, 200) == 200

    async def _heartbeat(self, state: str) -> None:
        queues = encode(list(self.options.queues))
        concurrency, in_flight = self.options.concurrency, len(self._flight)
        await self._store.holds.heartbeat(self.id, self._code_version, queues, concurrency, in_flight, state)

    # Leases

    async def _renew_loop(self) -> None:
        while True:
            await self._clock.sleep(self.options.lease_seconds / 3.0)
            await self.keeper.renew(self._store.leases)

    def _lost_from_thread(self, keys: list[Key]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._lost, keys)

    def _lost(self, keys: list[Key]) -> None:
        """Fence ourselves: stop the handlers, and send nothing further for them."""
        for run_id, token in keys:
            work = self._flight.get(run_id)
            if work is not None and work.claim.token == token:
                work.interrupt(Interruption.LOST)

    # Hints

    def _heard(self, queue: str) -> None:
        if not queue or queue in self.options.queues:
            self._wake.set()

    def _jittered(self, seconds: float) -> float:
        return seconds * (0.75 + 0.5 * self._executor.random.random())


@asynccontextmanager
async def _running(
    loops: Sequence[Callable[[], Coroutine[Any, Any, None]]],
) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield tasks
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _postponed(claim: Claim) -> Record:
    return Record(
        Rescheduled(
            claim.id,
            claim.token,
            claim.epoch,
            "waiting",
            "PENDING",
            UNREADABLE_DELAY,
            claim.failures,
            claim.rate_limit_waits,
            claim.holds + 1,
            claim.losses,
            claim.lonely_losses,
            claim.alone,
            claim.previous_delay,
            None,
            0,
        ),
        slots=claim.slots,
    )
