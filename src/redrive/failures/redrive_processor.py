"""The redrive processor: replays dead letters automatically, as their redrive policies say.

At every interval it starts a replay for each letter that is due; workers execute the replays and record the
results. Several processors may run at once, each in its own process; only one of them takes each letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.engine.shared_breakers import SharedBreakers
from redrive.engine.signals import wait_for
from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import StoreError, TransitionError
from redrive.failures.groups import settle
from redrive.failures.statistics import Alarms
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetterState
from redrive.model.event import DeadLetterChanged, ProcessorChanged, ReplayRequested
from redrive.model.replay import Mode
from redrive.policy.automatic_redrive import CUSTOM_PREFIX, NO_FUNCTIONS, Functions
from redrive.policy.bounds import require
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Thresholds
from redrive.store.automatic_redrive import Archived, Due
from redrive.store.replays import NewReplay, StartedReplays
from redrive.store.store import Store

MAX_DUE_BATCH = 10_000
"""The maximum number of letters per query."""
MAX_BATCH_SIZE = 500
"""The maximum number of letters per transaction."""
PROCESSOR_MEMORY_SECONDS = 86_400.0
STOP_GRACE_SECONDS = 5.0
STOPPED, RUNNING = "stopped", "running"
REASON = "redriven automatically"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOptions:
    """
    interval_seconds  the time between two passes
    archive_seconds   how long a letter stays exhausted before it is archived; None: forever
    queue             the queue to process; None: all queues
    max_size          the maximum number of live letters, for the alert; None: no limit
    functions         custom policies by name; letters with an unknown policy are skipped
    """

    interval_seconds: float = 60.0
    archive_seconds: float | None = 7 * 86_400.0
    queue: str | None = None
    max_size: int | None = None
    thresholds: Thresholds = DEFAULT_THRESHOLDS
    functions: Functions = field(default_factory=lambda: NO_FUNCTIONS)

    def __post_init__(self) -> None:
        require("interval_seconds", self.interval_seconds, 0.01, 86_400.0)


class Pass(NamedTuple):
    """The numbers of changes made in one pass."""

    redriven: int
    archived: int
    reopened_groups: int


class Processor:
    def __init__(
        self,
        store: Store,
        breakers: SharedBreakers,
        clock: Clock,
        event_bus: EventBus,
        ids: Ids,
        retrier: StoreRetrier,
        options: ProcessorOptions,
    ) -> None:
        self.id = ids.new()
        self.options = options
        self.redriven = 0
        self._store = store
        self._redrives = store.redrives
        self._breakers = breakers
        self._clock = clock
        self._event_bus = event_bus
        self._ids = ids
        self._retrier = retrier
        self._alarms = Alarms(
            clock,
            event_bus,
            queue=options.queue or "",
            max_size=options.max_size,
            thresholds=options.thresholds,
        )
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # Starting and stopping

    @property
    def state(self) -> str:
        """ "running" or "stopped"."""
        return STOPPED if self._running is None or self._running.done() else RUNNING

    def start(self) -> None:
        """Make a pass every interval, in the background."""
        if self.state == RUNNING:
            raise TransitionError("the processor is already running; stop it before you start it again")
        self._stopping = asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop after the current pass; cancel the pass if it takes more than 5 seconds."""
        self._stopping.set()
        running, self._running = self._running, None
        if running is None:
            return
        await asyncio.wait({running}, timeout=STOP_GRACE_SECONDS)
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
        elif not running.cancelled():
            running.result()

    async def _run(self) -> None:
        self._event_bus.emit(ProcessorChanged(self.id, RUNNING))
        try:
            while not self._stopping.is_set():
                await self._retrier.run("redrive", self._pass)
                await wait_for(self._stopping, self.options.interval_seconds, self._clock)
            with suppress(StoreError):  # the missing heartbeat reports the stop as well
                await self._retrier.run("redrive", partial(self._heartbeat, STOPPED), tries=3)
        finally:
            self._event_bus.emit(ProcessorChanged(self.id, STOPPED))

    async def _pass(self) -> None:
        await self._heartbeat(RUNNING)
        await self._redrives.forget_processors(PROCESSOR_MEMORY_SECONDS)
        await self.run_once()

    async def _heartbeat(self, state: str) -> None:
        queue, interval = self.options.queue or "", self.options.interval_seconds
        await self._redrives.heartbeat(self.id, queue, state, interval, self.redriven)

    # One pass

    async def run_once(self) -> Pass:
        """Redrive due letters, archive exhausted ones, reopen groups and check the alarms."""
        redriven = await self._redrive()
        archived = await self._archive()
        reopened = await settle(self._store, self._event_bus) if self.options.queue is None else 0
        census = await self._redrives.census(queue=self.options.queue)
        self._alarms.check(census, self.options.interval_seconds)
        return Pass(redriven, archived, reopened)

    async def _redrive(self) -> int:
        """Start replays until no letter is due, or none of the due letters can start now."""
        total = 0
        while due := await self._due():
            begun = 0
            for start in range(0, len(due), MAX_BATCH_SIZE):
                begun += await self._begin(due[start : start + MAX_BATCH_SIZE])
            total += begun
            if len(due) < MAX_DUE_BATCH or not begun:
                break
        self.redriven += total
        return total

    async def _due(self) -> list[Due]:
        held = sorted(await self._breakers.opened())
        known = [CUSTOM_PREFIX + name for name in self.options.functions]
        return await self._redrives.due(
            MAX_DUE_BATCH, queue=self.options.queue, open_breakers=held, known=known
        )

    async def _begin(self, due: Sequence[Due]) -> int:
        async with self._store.database.transaction() as session:
            locked = await self._redrives.lock_due(session, due)
            if not locked:
                return 0
            begun = await self._store.replays.begin(session, [self._replay(letter) for letter in locked])
        await self._store.hint(begun.queues)
        self._emit(begun)
        return len(begun.replays)

    def _replay(self, due: Due) -> NewReplay:
        return NewReplay(
            id=self._ids.new(),
            org=due.org,
            letter_id=due.letter_id,
            run_id=due.run_id,
            step_index=due.step_index,
            from_step=due.step_index,
            mode=Mode.FROM_STEP,
            automatic=True,
            requested_by=SELF,
            reason=REASON,
        )

    def _emit(self, begun: StartedReplays) -> None:
        if self._event_bus.is_subscribed(ReplayRequested):
            for replay in begun.replays:
                names = (replay.org, replay.letter_id, replay.run_id, replay.mode)
                self._event_bus.emit(ReplayRequested(*names, SELF))

    async def _archive(self) -> int:
        age, total = self.options.archive_seconds, 0
        while age is not None:
            archived = await self._archive_some(age)
            total += len(archived)
            for letter in archived:
                change = (DeadLetterState.EXHAUSTED, DeadLetterState.ARCHIVED)
                self._event_bus.emit(DeadLetterChanged(letter.org, letter.letter_id, *change, SELF))
            if len(archived) < MAX_BATCH_SIZE:
                break
        return total

    async def _archive_some(self, age: float) -> list[Archived]:
        reason = f"exhausted for more than {age / 86_400.0:g} days"
        queue = self.options.queue
        async with self._store.database.transaction() as session:
            archived = await self._redrives.archive(session, age, MAX_BATCH_SIZE, reason, queue)
            await self._store.audit.append(session, _archivings(archived, reason))
        return archived


def _archivings(archived: Sequence[Archived], reason: str) -> list[NewEntry]:
    """Return one audit entry per organization, for all its letters."""
    by_org: dict[str, list[str]] = {}
    for letter in archived:
        by_org.setdefault(letter.org, []).append(letter.letter_id)
    return [
        NewEntry(
            org=org,
            actor=SELF,
            action=Action.DEAD_LETTER_ARCHIVED,
            subjects=tuple(ids),
            detail={"reason": reason},
        )
        for org, ids in by_org.items()
    ]
