"""Maintenance: makes due runs ready, takes over expired leases, sends heartbeats and deletes old data."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial
from os import getpid
from socket import gethostname

from redrive.engine.claimer import Claimer
from redrive.engine.definition import Definition
from redrive.engine.gate import HELD_BY_LIMIT
from redrive.engine.known_work import holder_of
from redrive.engine.look_back import LookBack
from redrive.engine.shared_breakers import HELD_BY_BREAKER
from redrive.engine.signals import wait_for
from redrive.engine.takeover_grace import TakeoverGrace
from redrive.engine.work import Interruption, Work
from redrive.engine.worker_parts import WorkerParts
from redrive.model.claim import Claim
from redrive.model.event import HeldReleased
from redrive.model.run import HELD_BY_WORKFLOW, is_unknown
from redrive.policy.codec import encode
from redrive.store.leases import FROM_THE_BEGINNING
from redrive.store.runs import FIRST_KEY

MAX_PROMOTION_BATCH = 500
MAX_RECLAIM_BATCH = 100
MAX_REMOVAL_BATCH = 200
MAX_HOLD_BATCH = 500
FLOOR_MARGIN_SECONDS = 10.0
"""How far in the past a floor is: transactions that started before it may still commit older entries."""
WORKER_RETENTION_SECONDS = 86_400.0
RETENTION_INTERVAL_SECONDS = 60.0
MIN_HEARTBEAT_SECONDS = 1.0
"""The minimum time between two heartbeats. The second comes early if the load of the worker has changed."""


class Maintenance:
    """
    promoted_at    the time when it last made due runs ready, on the monotonic clock
    maintained_at  the time when it last checked for expired leases
    """

    def __init__(self, parts: WorkerParts, claimer: Claimer) -> None:
        self._worker_id = parts.id
        self._code_version = parts.code_version
        self._options = parts.options
        self._store = parts.store
        self._ids = parts.ids
        self._event_bus = parts.event_bus
        self._retrier = parts.retrier
        self._redactor = parts.redactor
        self._signals = parts.signals
        self._in_flight = parts.in_flight
        self._known_work = parts.known_work
        self._works = parts.works
        self._strategies = parts.strategies
        self._breakers = parts.breakers
        self._executor = parts.executor
        self._recorder = parts.recorder
        self._failure_handler = parts.failure_handler
        self._ended_runs = parts.ended_runs
        self._event_retention = parts.event_retention
        self._claimer = claimer
        self._clock = parts.clock
        self._seconds_until_poll = parts.seconds_until_poll
        self.promoted_at = self.maintained_at = parts.clock.monotonic()
        self._due_look_back, self._expiry_look_back = LookBack(parts.clock), LookBack(parts.clock)
        self._grace = TakeoverGrace(parts.clock, parts.retrier)
        self._blames = True
        self._unsure: tuple[int, bool] | None = None
        self._settled = FIRST_KEY
        self._reported_load, self._reported_at = 0, parts.clock.monotonic()
        self._moment = FROM_THE_BEGINNING  # a recent time of the database's clock, on which floors are based

    # Due and held runs

    async def run_promotion(self) -> None:
        """Make runs ready when they are due, until the worker stops."""
        while not self._signals.stopping.is_set():
            more = await self._retrier.run("promote", self.promote)
            self.promoted_at = self._clock.monotonic()
            if not more:
                wait = self._signals.seconds_until_due(self._seconds_until_poll())
                await wait_for(self._signals.due, wait, self._clock)

    async def promote(self) -> bool:
        """Make due runs ready, and release held runs that may continue. Return whether there are more."""
        self._signals.forget_due()
        leases, since, floor = self._store.leases, self._clock.monotonic(), self._due_look_back.floor()
        due = await leases.promote(MAX_PROMOTION_BATCH, floor)
        released, more = await self._release_held()
        if due or released:
            self._signals.ready.set()
        next_due = await leases.next_due(floor)
        if next_due.seconds is not None:
            self._signals.expect_due(next_due.seconds)
        is_full = len(due) == MAX_PROMOTION_BATCH
        self._due_look_back.looked(floor, since, floor if is_full else self._moment - FLOOR_MARGIN_SECONDS)
        self._moment = next_due.now
        return is_full or more

    async def _release_held(self) -> tuple[int, bool]:
        holds, count, more = self._store.limits, 0, False
        holders = await holds.holders()
        for holder in holders:
            if holder.startswith(HELD_BY_BREAKER):
                queues, again = await self._breakers.tend(holder.removeprefix(HELD_BY_BREAKER))
                count += self._report_released(holder, len(queues))
                more = more or (again and bool(queues))
        room = {HELD_BY_LIMIT + name: free for name, free in await holds.limits_with_room()}
        # Releasing one run is enough: once it is claimed, the limit is known again.
        forgotten = dict.fromkeys(await holds.forgotten_limits(HELD_BY_LIMIT), 1)
        for holder, free in (room | forgotten).items():
            count += self._report_released(holder, len(await holds.release(holder, free)))
        released = await self._release_unknown([holder for holder in holders if is_unknown(holder)])
        return count + sum(released), more or MAX_HOLD_BATCH in released

    async def _release_unknown(self, holders: Sequence[str]) -> list[int]:
        """Release runs that no worker knew, if this worker claims them. Return how many each holder held.

        First, this worker learns the held workflows: they may have a task that is registered in it.
        """
        known, queues = self._known_work, self._options.queues
        workflows = {
            holder.removeprefix(HELD_BY_WORKFLOW) for holder in holders if holder.startswith(HELD_BY_WORKFLOW)
        }
        if strange := workflows - set(known.workflows):
            known.learn((await self._newest_definitions(strange)).values())
        numbers = []
        for holder in holders:
            if known.releases(holder):
                released = await self._store.limits.release(
                    holder, MAX_HOLD_BATCH, queues=queues, workflows=known.only
                )
                numbers.append(self._report_released(holder, len(released)))
        return numbers

    def _report_released(self, holder: str, released: int) -> int:
        if released:
            self._event_bus.emit(HeldReleased(holder, released))
        return released

    # Leases, heartbeats and retention

    async def run(self) -> None:
        """Maintain leases, send heartbeats and delete old data, until the worker stops."""
        heartbeat = retention = self._clock.monotonic()
        while not self._signals.stopping.is_set():
            self._executor.abandon_stubborn()
            await self._retrier.run("maintain", self._maintain)
            now = self.maintained_at = self._clock.monotonic()
            if now >= heartbeat or self._is_load_news(now):
                await self._retrier.run("heartbeat", partial(self.heartbeat, "running"))
                heartbeat = now + self._options.heartbeat_seconds
            if now >= retention:
                more = await self._retrier.run("retention", self.remove_expired)
                retention = now + (0.0 if more else RETENTION_INTERVAL_SECONDS)
            wait, grace = self._seconds_until_poll(), self._grace.seconds_left()
            await wait_for(self._signals.stopping, min(wait, grace) if grace else wait, self._clock)

    async def _maintain(self) -> None:
        """Maintain. After a long outage, don't blame attempts: any lease may have expired because of it.

        A lease is renewed after a third of its duration, so an outage of two thirds can end any lease. If an
        attempt blocked the event loop of this worker, there was no outage. After any outage, other workers
        get some time to write their results before this one takes over leases.
        """
        silent = self._clock.monotonic() - self.maintained_at
        blocked = self._in_flight.loop_watch.has_refused_since(self.maintained_at)
        after_outage = silent > self._options.lease_seconds * 2.0 / 3.0
        if after_outage:
            # Results first: a run whose lease is taken over is executed again.
            await self._recorder.wait_until_written()
        if after_outage and not blocked:
            self._blames = False
        takes_over = self._grace.seconds_left() == 0.0
        await self.maintain(blame=self._blames, takes_over=takes_over)
        self._grace.reached(took_over=takes_over)
        self._blames = self._blames or takes_over

    async def maintain(self, *, blame: bool = True, takes_over: bool = True) -> None:
        """Take over expired leases, pass on cancellations, write progress and follow changed strategies."""
        if takes_over:
            await self.reclaim(blame=blame)
        queues, workflows = self._options.queues, self._known_work.workflows
        self._claimer.isolate(sorted(await self._store.leases.isolated_queues(queues, workflows)))
        for run_id, token in await self._store.leases.cancelling(self._worker_id):
            self._in_flight.interrupt(run_id, token, Interruption.CANCELLED)
        await self._hold_unknown()
        progress = [
            work.take_progress(self._redactor) for work in self._in_flight.works if work.progress is not None
        ]
        if progress:
            await self._store.records.note_progress(progress)
        await self._strategies.refresh()

    async def _hold_unknown(self) -> None:
        """Hold ready work that no worker of its queue knows, so that operators see it.

        First, this worker learns workflows that are not registered in it but have a task that is.
        """
        known, queues = self._known_work, self._options.queues
        ready = [kind for kind in await self._store.leases.ready_work() if kind[0] in queues]
        strange = {workflow for _, workflow in ready} - set(known.workflows)
        if not strange:
            return
        definitions = await self._newest_definitions(strange)
        if known.learn(definitions.values()):
            self._signals.ready.set()
        workers = await self._store.limits.workers()
        unknown = (strange & definitions.keys()) - set(known.workflows)
        for queue, workflow in ready:
            if workflow not in unknown:
                continue
            if not any(worker.claims(queue, workflow) for worker in workers):
                holder = holder_of(definitions[workflow])
                await self._store.limits.hold(queue, workflow, holder, MAX_HOLD_BATCH)

    async def _newest_definitions(self, workflows: Set[str]) -> dict[str, Definition]:
        digests = await self._store.runs.newest_definitions(workflows)
        found = [await self._works.definitions.find(digest) for digest in digests]
        return {definition.workflow: definition for definition in found if definition is not None}

    async def reclaim(self, *, blame: bool = True) -> int:
        """Handle attempts whose leases have expired. Return how many there were.

        Pass `blame=False` after a time in which no worker could renew a lease: the attempts are not at fault.
        """
        await self.finish_reclaim()
        token, moment = self._ids.token(), self._moment
        since, floor = self._clock.monotonic(), self._expiry_look_back.floor()
        self._unsure = token, blame
        claims = await self._store.leases.reclaim(
            token, self._options.lease_seconds, MAX_RECLAIM_BATCH, floor
        )
        is_full = len(claims) == MAX_RECLAIM_BATCH
        self._expiry_look_back.looked(floor, since, floor if is_full else moment - FLOOR_MARGIN_SECONDS)
        await self._handle_all_lost(claims, blame)
        self._unsure = None
        return len(claims)

    async def finish_reclaim(self) -> None:
        """Handle the leases of a takeover whose response never arrived, in case it was committed."""
        if self._unsure is None:
            return
        token, blame = self._unsure
        claims = await self._store.leases.reclaimed(token)
        await self._handle_all_lost([claim for claim in claims if not self._in_flight.knows(claim.id)], blame)
        self._unsure = None

    async def _handle_all_lost(self, claims: Sequence[Claim], blame: bool) -> None:
        # A step that blocked the event loop of its worker is at fault alone.
        blocking = await self._store.limits.blocking_runs() if claims else {}
        for claim in claims:
            work = await self._claimer.readable(claim)
            if work is not None:
                self._handle_lost(work, blame and blocking.get(claim.worker, claim.id) == claim.id)

    def _handle_lost(self, work: Work, blame: bool) -> None:
        try:
            self._failure_handler.lost(work, blame=blame)
        except Exception as error:  # noqa: BLE001 — one bad row must not prevent the recovery of others
            self._in_flight.remove(work)
            self._retrier.report_failure("reclaim", repr(error), 0.0)

    async def remove_expired(self) -> bool:
        """Delete a batch of old runs, idempotency keys, sessions and so on. Return True if more remain."""
        await self._store.limits.forget_workers(WORKER_RETENTION_SECONDS)
        await self._store.limits.forget_limits()
        await self._store.letter_writer.sum_up()
        await self._store.tallies.sum_up()
        tallies = await self._store.tallies.remove_expired(MAX_REMOVAL_BATCH)
        sessions = await self._store.sessions.remove_expired(MAX_REMOVAL_BATCH)
        tokens = await self._store.one_time.remove_expired(MAX_REMOVAL_BATCH)
        keys = await self._store.idempotency.remove_expired(MAX_REMOVAL_BATCH)
        self._settled = await self._store.runs.settle_orders(self._settled, MAX_REMOVAL_BATCH)
        age = self._options.retention_seconds
        runs = 0 if age is None else await self._store.runs.remove_expired(age, MAX_REMOVAL_BATCH)
        more_events = await self._event_retention.remove_expired(MAX_REMOVAL_BATCH)
        return more_events or MAX_REMOVAL_BATCH in (tallies, sessions, tokens, keys, runs)

    def _is_load_news(self, now: float) -> bool:
        """Whether the number of running steps has changed noticeably since the last heartbeat."""
        before, load = self._reported_load, self._executor.executing
        noticeable = max(1, self._options.concurrency // 10)
        has_changed = abs(load - before) >= noticeable or (load == 0) != (before == 0)
        return has_changed and now >= self._reported_at + MIN_HEARTBEAT_SECONDS

    async def heartbeat(self, state: str) -> None:
        self._reported_load, self._reported_at = self._executor.executing, self._clock.monotonic()
        queues = encode(list(self._options.queues))
        concurrency, version = self._options.concurrency, self._code_version
        await self._store.limits.heartbeat(
            self._worker_id,
            version,
            queues,
            concurrency,
            self._reported_load,
            state,
            gethostname(),
            getpid(),
            encode(sorted(self._known_work.workflows)),
        )
        await self.write_ended_runs()

    async def write_ended_runs(self) -> None:
        await self._ended_runs.write(self._store.tallies)
