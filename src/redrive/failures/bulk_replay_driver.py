"""The driver of bulk replays: polls every running operation, decides its next move, and makes it.

Each move is one transaction that locks the operation. A driver can be killed at any point; another driver
continues from there. Most polls find nothing to do and lock nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from redrive.engine.event_bus import EventBus
from redrive.engine.shared_breakers import SharedBreakers
from redrive.errors import InvalidValueError
from redrive.failures.bulk_replay_planner import plan_of
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.event import OperationChanged, ReplayRequested
from redrive.model.fact import fact
from redrive.model.operation import ReplayOperation
from redrive.model.replay import OperationState
from redrive.policy.rollout import (
    POLL_SECONDS,
    CanaryPassed,
    Finish,
    ItemRelease,
    Move,
    RolloutFigures,
    RolloutPlan,
    RolloutWait,
    Stop,
    next_move,
)
from redrive.store.bulk_replays import OperationSnapshot
from redrive.store.database import Session
from redrive.store.replays import StartedReplays
from redrive.store.store import Store
from redrive.words.fact import text_of

IDLE_SECONDS = 1.0
BLOCKED = fact("dependency_unresolved")
NO_REPLAYS = StartedReplays((), ())


class Advance(NamedTuple):
    """The operation before and after a move, and the seconds until the next poll."""

    before: ReplayOperation
    after: ReplayOperation
    seconds: float = 0.0
    begun: StartedReplays = NO_REPLAYS


class BulkReplayDriver:
    """Drives the bulk replays of all organizations. Any number of drivers and processes may run at once."""

    def __init__(self, store: Store, breakers: SharedBreakers, event_bus: EventBus) -> None:
        self._store = store
        self._operations = store.operations
        self._breakers = breakers
        self._event_bus = event_bus
        self._moving: set[str] = set()

    async def tick(self) -> float:
        """Advance every running operation. Return the seconds until the next tick; 0 if work is ready."""
        running = await self._operations.running()
        if not running:
            return IDLE_SECONDS
        open_breakers = await self._breakers.opened()
        return min([await self._drive(moment, open_breakers) for moment in running])

    async def _drive(self, moment: OperationSnapshot, open_breakers: Iterable[str]) -> float:
        """Look without a lock first, unless the operation has just moved and will probably move again."""
        operation_id = moment.operation.id
        if operation_id not in self._moving:
            move = await self._decide(self._store.database, moment, open_breakers)
            if isinstance(move, RolloutWait):
                return move.seconds
        self._moving.discard(operation_id)
        advance = await self._advance(operation_id, open_breakers)
        if advance is None:
            return POLL_SECONDS
        if advance.begun.replays:
            self._moving.add(operation_id)
        self._emit(advance)
        if advance.begun.queues:
            await self._store.hint(advance.begun.queues)
        return advance.seconds

    async def _advance(self, operation_id: str, open_breakers: Iterable[str]) -> Advance | None:
        """Decide again under the lock, because another driver may have moved the operation; make the move."""
        async with self._store.database.transaction() as session:
            moment = await self._operations.lock_running(session, operation_id)
            if moment is None:
                return None
            move = await self._decide(session, moment, open_breakers)
            return await self._apply(session, moment, move)

    async def _decide(
        self, session: Session, moment: OperationSnapshot, open_breakers: Iterable[str]
    ) -> Move:
        operation, now = moment
        try:
            rollout = RolloutPlan.from_json(operation.options)
            breakers = await self._breakers_ahead(session, operation, open_breakers)
        except (InvalidValueError, AttributeError, KeyError, TypeError) as error:
            return Stop(fact("unreadable", error=f"{error!r:.200}"))
        tally = await self._operations.tally(session, operation.id)
        figures = RolloutFigures(
            score=tally.score(operation.released).since(rollout.pardoned),
            ready=tally.ready,
            running=tally.running,
            ramping=operation.ramped_at is not None,
            released_at=operation.released_at,
            open_breaker=min(breakers, default=None),
        )
        return next_move(figures, rollout.options, now)

    async def _breakers_ahead(
        self, session: Session, operation: ReplayOperation, open_breakers: Iterable[str]
    ) -> list[str]:
        """Return the open breakers that planned items depend on."""
        if not open_breakers:
            return []
        known = plan_of(operation).breakers
        return [
            name
            for name in open_breakers
            if name in known and await self._operations.depends_on(session, operation.id, name)
        ]

    async def _apply(self, session: Session, moment: OperationSnapshot, move: Move) -> Advance:
        operation, now = moment
        match move:
            case RolloutWait(seconds):
                return Advance(operation, operation, seconds)
            case ItemRelease(number, released_at):
                return await self._release(session, operation, number, released_at)
            case CanaryPassed():
                after = operation.replace(ramped_at=now, released_at=now)
                await self._operations.save(session, after)
                return Advance(operation, after)
            case Stop(reason):
                after = operation.replace(state=OperationState.STOPPED, stopped_because=reason)
                return await self._end(session, operation, after, Action.OPERATION_STOPPED)
            case Finish():
                return await self._finish(session, operation, now)

    async def _release(
        self, session: Session, operation: ReplayOperation, number: int, released_at: float
    ) -> Advance:
        begun = await self._store.replays.begin_planned(session, operation.id, number)
        after = operation.replace(released=operation.released + len(begun.replays), released_at=released_at)
        await self._operations.save(session, after)
        moved = begun.replays or begun.refused
        return Advance(operation, after, 0.0 if moved else POLL_SECONDS, begun)

    async def _finish(self, session: Session, operation: ReplayOperation, now: float) -> Advance:
        """Finish the operation.

        No item is running, so the remaining items depend on unresolved dead letters and are refused first.
        """
        if await self._operations.refuse_blocked(session, operation.id, BLOCKED):
            return Advance(operation, operation, POLL_SECONDS)
        after = operation.replace(state=OperationState.DONE, ended_at=now)
        return await self._end(session, operation, after, Action.OPERATION_FINISHED)

    async def _end(
        self, session: Session, before: ReplayOperation, after: ReplayOperation, action: Action
    ) -> Advance:
        detail = {"begun": after.released, "reason": _reason(after)}
        await self._operations.save(session, after)
        await self._store.audit.append(
            session, [NewEntry(org=after.org, actor=SELF, action=action, subjects=(after.id,), detail=detail)]
        )
        return Advance(before, after)

    def _emit(self, advance: Advance) -> None:
        before, after = advance.before, advance.after
        if before.state != after.state:
            self._event_bus.emit(
                OperationChanged(
                    org=after.org,
                    operation_id=after.id,
                    before=before.state,
                    after=after.state,
                    reason=_reason(after),
                )
            )
        if self._event_bus.is_subscribed(ReplayRequested):
            for replay in advance.begun.replays:
                names = (replay.org, replay.letter_id, replay.run_id, replay.mode, replay.requested_by)
                self._event_bus.emit(ReplayRequested(*names))


def _reason(operation: ReplayOperation) -> str:
    stopped = operation.stopped_because
    return "" if stopped is None else text_of(stopped)
