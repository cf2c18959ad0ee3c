"""Storing events with the runs that project them, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from redrive.clock import Clock
from redrive.engine.encryption import Encryption
from redrive.engine.enqueue import Enqueuer, Prepared, StartOptions
from redrive.engine.ids import Ids
from redrive.engine.payload import json_and_text
from redrive.errors import TransitionError
from redrive.events.projector import Projector
from redrive.events.stream import Stream
from redrive.model.run import NewRun
from redrive.model.step import key_of_further_run
from redrive.model.stream import RECORDED, Event, Projection, StoredEvent, StreamPosition
from redrive.policy.codec import JsonLimits, JsonValue, decode_stored
from redrive.store.database import Session
from redrive.store.event_runs import NextRun
from redrive.store.events import WaitingProjection
from redrive.store.store import Store


class PlannedRun(NamedTuple):
    """A run to store if its event is new."""

    event_id: str
    projector: Projector
    prepared: Prepared


class FurtherRun(NamedTuple):
    """A run that follows another one in a projection, which may have none yet."""

    planned: PlannedRun
    old_run_id: str | None

    @property
    def is_first(self) -> bool:
        return self.old_run_id is None

    @property
    def next(self) -> NextRun:
        new, projector = self.planned.prepared[0], self.planned.projector
        return NextRun(
            event_id=self.planned.event_id,
            projector=projector.name,
            version=projector.version,
            org=new.org,
            old_run_id=str(self.old_run_id),
            run_id=new.id,
        )


class PreparedEvent(NamedTuple):
    event: Event
    row: StoredEvent
    runs: Sequence[PlannedRun]


class Written(NamedTuple):
    """What a transaction has stored: the ids of new events, and their runs with the ids of stored ones."""

    event_ids: frozenset[str]
    runs: Sequence[NewRun]
    run_ids: Sequence[str]


class EventRecorder:
    """Prepares events, and stores them in a transaction of the caller."""

    def __init__(
        self,
        store: Store,
        enqueuer: Enqueuer,
        ids: Ids,
        clock: Clock,
        encryption: Encryption,
        limits: JsonLimits,
    ) -> None:
        self._store = store
        self._enqueuer = enqueuer
        self._ids = ids
        self._clock = clock
        self._encryption = encryption
        self._limits = limits

    def prepare(
        self,
        stream: Stream,
        event: Event,
        *,
        generation: int = RECORDED,
        position: StreamPosition | None = None,
    ) -> PreparedEvent:
        """Check an event and build the rows to store. Raise if it can't be stored or ordered."""
        event_id = self._ids.new()
        event = replace(
            stream.checked(event),
            id=event_id,
            stream=stream.name,
            message_id=None if position is None else position.message_id,
            stored_at=self._clock.now(),
        )
        payload, text = json_and_text(event.payload, limits=self._limits)
        row = StoredEvent(
            id=event_id,
            org=str(event.org),
            stream=stream.name,
            type=event.type,
            source=event.source,
            user_id=event.user,
            dedupe_key=event.dedupe_key,
            generation=generation,
            position=event_id if position is None else position.text,
            payload=self._encryption.encrypt(text),
            occurred_at=event.occurred_at,
            stored_at=event.stored_at,
        )
        return PreparedEvent(event, row, self._runs(event, payload, stream.interested(event)))

    async def define(self, prepared: Iterable[PreparedEvent]) -> None:
        """Store the definitions of the runs, before the transaction that stores the runs."""
        await self.define_runs([run for event in prepared for run in event.runs])

    async def define_runs(self, planned: Sequence[PlannedRun]) -> None:
        """Store the definitions of these runs."""
        if planned:
            await self._enqueuer.define([run.prepared for run in planned])

    async def define_projector(self, projector: Projector) -> None:
        """Store the definition of a projector's runs, before a transaction that stores some."""
        await self._enqueuer.define_workflow(projector.task)

    async def write(
        self, session: Session, prepared: Sequence[PreparedEvent], waiting: Collection[str] = ()
    ) -> Written:
        """Store events whose dedupe key is new, and a run for each projector that wants them.

        Ordered runs of the events in `waiting` are stored later, by `release`.
        """
        new = await self._store.events.insert(session, [event.row for event in prepared])
        planned = [run for event in prepared if event.row.id in new for run in event.runs]
        late = [run for run in planned if run.event_id in waiting and run.projector.ordered_by is not None]
        now = [run for run in planned if run not in late] if late else planned
        runs = [run.prepared[0] for run in now]
        run_ids = await self._store.runs.enqueue_within(session, runs) if runs else []
        projections = [_projection(run, run_id, waits=0) for run, run_id in zip(now, run_ids, strict=True)]
        projections += [_projection(run, run.prepared[0].id, waits=1) for run in late]
        await self._store.events.project(session, projections)
        return Written(frozenset(new), runs, run_ids)

    def prepare_waiting(self, stream: Stream, waiting: Sequence[WaitingProjection]) -> list[PlannedRun]:
        """Build the runs of stored events whose projection waits, in order.

        Projections of projectors that this program does not have stay as they are.
        """
        known = {(projector.name, projector.version): projector for projector in stream.projectors}
        planned = []
        for projection in waiting:
            projector = known.get((projection.projector, projection.version))
            if projector is not None:
                planned.append(self.prepare_again(projection.event, projector, None))
        return planned

    def prepare_again(self, row: StoredEvent, projector: Projector, cause: str | None) -> PlannedRun:
        """Build another run that projects a stored event; the first one if `cause` is None.

        `cause` is the id of the former run or of the rebuild, and keeps the keys of the runs apart. The
        idempotency key in the context of the task stays the same.
        """
        payload = decode_stored(self._encryption.decrypt(row.payload))
        event = event_of_row(row, payload)
        run, definition = self._run(event, event_to_json(event, payload), projector)
        if cause is not None:
            run = run.replace(idempotency_key=key_of_further_run(projector.key(event), cause))
        return PlannedRun(event.id, projector, (run, definition))

    async def begin_again(self, session: Session, further: Sequence[FurtherRun]) -> Written:
        """Store further runs of projections whose former run has settled, and first runs; leave out others.

        The caller has locked the events.
        """
        events = self._store.event_runs
        first = [
            _projection(run.planned, run.planned.prepared[0].id, waits=0) for run in further if run.is_first
        ]
        begun = await events.begin(session, first)
        begun |= await events.follow(session, [run.next for run in further if not run.is_first])
        runs = [run.planned.prepared[0] for run in further if run.planned.prepared[0].id in begun]
        run_ids = await self._store.runs.enqueue_within(session, runs) if runs else []
        if list(run_ids) != [run.id for run in runs]:
            raise TransitionError("another request has just started one of these projections; try again")
        return Written(frozenset(run.correlation_id for run in runs), runs, run_ids)

    async def release(self, session: Session, planned: Sequence[PlannedRun]) -> Written:
        """Store the runs of projections that have waited."""
        runs = [run.prepared[0] for run in planned]
        run_ids = await self._store.runs.enqueue_within(session, runs) if runs else []
        released = [_projection(run, run_id, waits=0) for run, run_id in zip(planned, run_ids, strict=True)]
        await self._store.events.release(session, released)
        return Written(frozenset(), runs, run_ids)

    async def announce(self, written: Written) -> None:
        """Wake workers, after the transaction."""
        if written.runs:
            await self._enqueuer.announce(written.runs, written.run_ids)

    def _runs(self, event: Event, payload: JsonValue, projectors: Sequence[Projector]) -> list[PlannedRun]:
        if not projectors:
            return []
        value = event_to_json(event, payload)
        return [
            PlannedRun(event.id, projector, self._run(event, value, projector)) for projector in projectors
        ]

    def _run(self, event: Event, value: Mapping[str, JsonValue], projector: Projector) -> Prepared:
        options: StartOptions = {
            "org": str(event.org),
            "key": projector.key(event),
            "correlation_id": event.id,
        }
        order_key = projector.order_key(event)
        if order_key is not None:
            options["order_key"] = order_key
            options["after_failure"] = projector.after_failure.value
        return self._enqueuer.prepare(projector.task, value, options)


def event_to_json(event: Event, payload: JsonValue) -> dict[str, JsonValue]:
    """Return the payload of a projector's run."""
    return {
        "type": event.type,
        "payload": payload,
        "dedupe_key": event.dedupe_key,
        "source": event.source,
        "user": event.user,
        "occurred_at": event.occurred_at,
        "org": event.org,
        "id": event.id,
        "stream": event.stream,
        "message_id": event.message_id,
        "stored_at": event.stored_at,
    }


def event_of_row(row: StoredEvent, payload: Any) -> Event:
    """Return a stored event, with its decrypted payload."""
    return Event(
        type=row.type,
        payload=payload,
        dedupe_key=row.dedupe_key,
        source=row.source,
        user=row.user_id,
        occurred_at=row.occurred_at,
        org=row.org,
        id=row.id,
        stream=row.stream,
        message_id=row.message_id,
        stored_at=row.stored_at,
    )


def _projection(run: PlannedRun, run_id: str, *, waits: int) -> Projection:
    new = run.prepared[0]
    return Projection(
        event_id=run.event_id,
        projector=run.projector.name,
        version=run.projector.version,
        org=new.org,
        stream=run.projector.task.partition(":")[0],
        run_id=run_id,
        waits=waits,
    )
