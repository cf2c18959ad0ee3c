"""The driver of rebuilds: reads the next events of every running rebuild, and starts their runs.

Each step is one transaction that locks the rebuild, stores runs and moves on. A driver can be killed at any
point; another driver continues from there. A worker drives only rebuilds of projectors that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from typing import NamedTuple

from redrive.events.projector import Projector
from redrive.events.recorder import EventRecorder, FurtherRun, Written, event_of_row
from redrive.events.stream import Stream
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.dead_letter import LIVE
from redrive.model.fact import fact
from redrive.model.query import Moment, Query, Term
from redrive.model.rebuild import Rebuild
from redrive.model.replay import OperationState
from redrive.model.stream import StoredEvent
from redrive.store.database import Session
from redrive.store.rebuilds import RebuildSnapshot
from redrive.store.store import Store

MAX_BATCH = 200
"""Events that one step reads."""
MAX_UNFINISHED = 1_000
"""A rebuild waits while its projector has this number of unfinished runs; see also `_room`."""
BURST_SECONDS = 1.0
POLL_SECONDS = 0.2
IDLE_SECONDS = 1.0


class _Step(NamedTuple):
    """What a step has read: all events up to the last one of `read` are done, those in `runs` with a run."""

    read: Sequence[StoredEvent]
    further: Sequence[FurtherRun]
    skipped: int


class RebuildDriver:
    """Drives the rebuilds of all organizations. Any number of drivers and processes may run at once."""

    def __init__(self, store: Store, recorder: EventRecorder, streams: Mapping[str, Stream]) -> None:
        self._store = store
        self._rebuilds = store.rebuilds
        self._recorder = recorder
        self._streams = streams

    async def tick(self) -> float:
        """Advance every running rebuild. Return the seconds until the next tick; 0 if work is ready."""
        if not self._streams:
            return IDLE_SECONDS
        waits = [IDLE_SECONDS]
        for snapshot in await self._rebuilds.running():
            projector = self._projector(snapshot.rebuild)
            if projector is not None:
                waits.append(await self._advance(snapshot, projector))
        return min(waits)

    def _projector(self, rebuild: Rebuild) -> Projector | None:
        stream = self._streams.get(rebuild.stream)
        if stream is None or rebuild.org not in stream.orgs:
            return None
        wanted = rebuild.projector, rebuild.version
        return next((known for known in stream.projectors if (known.name, known.version) == wanted), None)

    async def _advance(self, snapshot: RebuildSnapshot, projector: Projector) -> float:
        """Look without a lock whether there is something to do, then do it under the lock."""
        rebuild, now = snapshot
        failures = await self._failures(rebuild)
        if failures >= rebuild.max_failures:
            await self._stop(rebuild, failures)
            return POLL_SECONDS
        room = _room(rebuild, await self._unfinished(rebuild, projector))
        if room < 1 or _allowance(rebuild, now) < 1:
            return POLL_SECONDS
        await self._recorder.define_projector(projector)
        async with self._store.database.transaction() as session:
            locked = await self._rebuilds.lock_running(session, rebuild.id)
            if locked is None:
                return POLL_SECONDS
            written, is_done = await self._step(session, locked, projector, room)
        await self._recorder.announce(written)
        return POLL_SECONDS if is_done else 0.0

    async def _step(
        self, session: Session, locked: RebuildSnapshot, projector: Projector, room: int
    ) -> tuple[Written, bool]:
        rebuild, now = locked
        allowance = min(room, _allowance(rebuild, now))
        rows = await self._rebuilds.next_events(session, rebuild, MAX_BATCH)
        step = await self._select(session, rebuild, projector, rows, allowance)
        written = await self._recorder.begin_again(session, step.further)
        started = len(written.runs)
        after = rebuild.replace(
            seen=rebuild.seen + len(step.read),
            started=rebuild.started + started,
            skipped=rebuild.skipped + step.skipped + len(step.further) - started,
            released_at=_released_at(rebuild, now, len(step.further)),
        )
        if step.read:
            last = step.read[-1]
            after = after.replace(generation=last.generation, position=last.position, event_id=last.id)
        is_done = len(rows) < MAX_BATCH and len(step.read) == len(rows)
        if is_done:
            after = after.replace(state=OperationState.DONE, ended_at=now)
            detail = {"started": after.started, "skipped": after.skipped}
            await self._audit(session, after, Action.REBUILD_FINISHED, detail)
        await self._rebuilds.save(session, after)
        return written, is_done

    async def _select(
        self,
        session: Session,
        rebuild: Rebuild,
        projector: Projector,
        rows: Sequence[StoredEvent],
        allowance: int,
    ) -> _Step:
        """Choose the events to project, up to the allowance, and build their runs."""
        wanted = [row for row in rows if _is_wanted(rebuild, projector, row)]
        ids = [row.id for row in wanted]
        existing = await self._store.event_runs.lock(session, ids, rebuild.org)
        former = await self._store.event_runs.runs(
            session, ids, rebuild.projector, rebuild.version, rebuild.org
        )
        chosen, further, unreadable = {row.id for row in wanted} & existing, list[FurtherRun](), 0
        if rebuild.only_missing:
            chosen -= former.keys()
        for number, row in enumerate(rows):
            if row.id not in chosen:
                continue
            if len(further) == allowance:
                return _Step(rows[:number], further, unreadable)
            old = former.get(row.id)
            try:
                cause = None if old is None else rebuild.id
                further.append(FurtherRun(self._recorder.prepare_again(row, projector, cause), old))
            except Exception:  # noqa: BLE001 — ordered_by may raise, and the key of the payload may be missing
                unreadable += 1
        return _Step(rows, further, unreadable)

    async def _unfinished(self, rebuild: Rebuild, projector: Projector) -> int:
        """Count the unfinished runs of the projector, up to a little more than MAX_UNFINISHED."""
        names = ([rebuild.org], [projector.queue], [projector.task])
        # Queued ones first: a run that starts in between is counted twice, never left out.
        return await self._store.events.queued(*names, MAX_UNFINISHED) + await self._rebuilds.executing(
            rebuild
        )

    async def _failures(self, rebuild: Rebuild) -> int:
        """Count the live dead letters of the projector since the rebuild was started or resumed."""
        query = Query(
            (
                Term("is", LIVE),
                Term("workflow", (rebuild.task,)),
                Term("since", (Moment(rebuild.resumed_at),)),
            )
        )
        most = rebuild.max_failures
        return (await self._store.dead_letters.count(query, rebuild.org, most)).number

    async def _stop(self, rebuild: Rebuild, failures: int) -> None:
        async with self._store.database.transaction() as session:
            locked = await self._rebuilds.lock_running(session, rebuild.id)
            if locked is None or locked.rebuild.resumed_at != rebuild.resumed_at:
                return
            reason = fact("rebuild_failures", failures=failures)
            after = locked.rebuild.replace(state=OperationState.STOPPED, stopped_because=reason)
            await self._rebuilds.save(session, after)
            await self._audit(session, after, Action.REBUILD_STOPPED, {"failures": failures})

    async def _audit(
        self, session: Session, rebuild: Rebuild, action: Action, detail: Mapping[str, int]
    ) -> None:
        await self._store.audit.append(session, [NewEntry(rebuild.org, SELF, action, (rebuild.id,), detail)])


def _is_wanted(rebuild: Rebuild, projector: Projector, row: StoredEvent) -> bool:
    if rebuild.types and row.type not in rebuild.types:
        return False
    if rebuild.since is not None and row.stored_at < rebuild.since:
        return False
    if rebuild.until is not None and row.stored_at >= rebuild.until:
        return False
    return projector.wants(event_of_row(row, None))


def _room(rebuild: Rebuild, unfinished: int) -> int:
    """Return how many runs may start: few at first, so that it stops in time, then more and more."""
    return min(MAX_UNFINISHED, max(rebuild.max_failures, rebuild.started)) - unfinished


def _allowance(rebuild: Rebuild, now: float) -> int:
    """Return how many events may start now: with a rate, those of the time since the last ones."""
    if rebuild.rate is None:
        return MAX_BATCH
    seconds = max(0.0, now - rebuild.released_at)
    return min(MAX_BATCH, floor(seconds * rebuild.rate + 1e-9))


def _released_at(rebuild: Rebuild, now: float, number: int) -> float:
    """Return the time from which the rate grants further events. Unused time counts for a burst at most."""
    if rebuild.rate is None:
        return now
    burst = max(BURST_SECONDS, 1.0 / rebuild.rate)
    return max(now - burst, rebuild.released_at + number / rebuild.rate)
