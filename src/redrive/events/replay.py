"""Projecting stored events again: one event, or all events of a stream through one projector."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, NamedTuple

from redrive.engine.ids import Ids
from redrive.errors import InvalidValueError, NotFoundError
from redrive.events.projector import Projector, checked_types, matches
from redrive.events.recorder import EventRecorder, PlannedRun
from redrive.events.stream import Stream
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.stream import Event, ProjectionRecord, ProjectionStatus, StoredEvent
from redrive.policy.bounds import require_whole
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.store import Store
from redrive.words.suggestion import suggest

MAX_REBUILD_PAGE = 1_000
REPLAYABLE = (ProjectionStatus.DEAD, ProjectionStatus.FAILED)
REPEATABLE = (ProjectionStatus.SUCCEEDED, ProjectionStatus.CANCELLED, ProjectionStatus.REMOVED)

ReplayRun = Callable[[str, str, str], Coroutine[Any, Any, None]]
"""Replays a failed run with its dead letter: its id, the name of the caller and a reason."""


class ReplayedProjection(NamedTuple):
    """What became of one projection. `status` is the one before; an unfinished one stays as it is."""

    projector: str
    version: int
    status: ProjectionStatus | None
    is_started: bool


class RebuildPage(NamedTuple):
    """A part of a rebuild.

    rebuild_id  the id of the rebuild: pass it with `after` to go on. A repeated page starts nothing twice
    after       the last event; None at the end
    started     how many runs were started
    """

    rebuild_id: str
    after: str | None
    started: int


class Replaying:
    """Projects events of one organization again."""

    def __init__(
        self,
        store: Store,
        recorder: EventRecorder,
        ids: Ids,
        redactor: Redactor,
        caller: Caller,
        replay_run: ReplayRun,
    ) -> None:
        self._store = store
        self._recorder = recorder
        self._ids = ids
        self._redactor = redactor
        self._caller = caller
        self._replay_run = replay_run

    async def replay(
        self, stream: Stream, row: StoredEvent, names: Collection[str], reason: str
    ) -> list[ReplayedProjection]:
        """Project an event again, by all projectors that want it or by those with these names."""
        reason, event = clean_reason(reason, self._redactor), self._recorder.event_of(row)
        records = {
            (record.projector, record.version): record
            for record in await self._store.events.records(row.id, row.org)
        }
        chosen = _chosen(stream, event, names)
        dead, planned = [], []
        outcomes = []
        again = self._ids.new()
        for projector in chosen:
            record = records.get((projector.name, projector.version))
            status = None if record is None else record.status
            if record is not None and status in REPLAYABLE:
                dead.append(record)
            elif status is None or status in REPEATABLE:
                key = "" if status is None else again
                planned.append(self._recorder.prepare_again(event, projector, key))
            is_started = status is None or status in (*REPLAYABLE, *REPEATABLE)
            outcomes.append(ReplayedProjection(projector.name, projector.version, status, is_started))
        await self._start(planned, self._entry(Action.EVENT_REPLAYED, row.id, chosen, reason))
        await self._replay_dead(dead, reason)
        return outcomes

    async def rebuild(
        self,
        stream: Stream,
        name: str,
        *,
        rebuild_id: str | None,
        after: str | None,
        since: float | None,
        until: float | None,
        types: Collection[str] | None,
        limit: int,
    ) -> RebuildPage:
        """Start the runs of a page of stored events, in the order of the stream."""
        require_whole("limit", limit, 1, MAX_REBUILD_PAGE)
        projector, wanted, org = _newest(stream, name), checked_types(types), self._caller.org
        is_first = rebuild_id is None
        rebuild_id = rebuild_id or self._ids.new()
        last = None if after is None else await self._store.events.get(after, org)
        rows = await self._store.events.page(org, stream.name, last, limit)
        events = [self._recorder.event_of(row) for row in rows if _is_within(row, since, until)]
        planned = [
            self._recorder.prepare_again(event, projector, rebuild_id)
            for event in events
            if projector.wants(event) and (not wanted or matches(event.type, wanted))
        ]
        entry = self._entry(Action.PROJECTION_REBUILT, rebuild_id, [projector], "")
        await self._start(planned, entry if is_first else None)
        return RebuildPage(rebuild_id, rows[-1].id if len(rows) == limit else None, len(planned))

    async def _start(self, planned: Sequence[PlannedRun], entry: NewEntry | None) -> None:
        await self._recorder.define_runs(planned)
        async with self._store.database.transaction() as session:
            written = await self._recorder.write_again(session, planned)
            await self._store.audit.append(session, [] if entry is None else [entry])
        await self._recorder.announce(written)

    async def _replay_dead(self, records: Sequence[ProjectionRecord], reason: str) -> None:
        for record in records:
            await self._replay_run(record.run_id, self._caller.name, reason)

    def _entry(self, action: Action, subject: str, projectors: Sequence[Projector], reason: str) -> NewEntry:
        org, actor = self._caller
        detail = {"projectors": [projector.task for projector in projectors]}
        return NewEntry(
            org=org,
            actor=actor,
            action=action,
            subjects=(subject,),
            detail={**detail, "reason": reason} if reason else detail,
        )


def _chosen(stream: Stream, event: Event, names: Collection[str]) -> list[Projector]:
    """Return the projectors with these names; without names, those that want the event."""
    known = {projector.name for projector in stream.projectors}
    for name in names:
        if name not in known:
            raise NotFoundError(
                f"the stream {stream.name!r} has no projector {name!r:.100}; {suggest(name, known)}"
            )
    if names:
        return [projector for projector in stream.projectors if projector.name in names]
    return list(stream.interested(event))


def _newest(stream: Stream, name: str) -> Projector:
    """Return the newest version of a projector, or the version in a name such as "qscore:v2"."""
    found = [
        projector
        for projector in stream.projectors
        if name in (projector.name, f"{projector.name}:v{projector.version}")
    ]
    if not found:
        known = {projector.name for projector in stream.projectors}
        raise InvalidValueError(
            f"the stream {stream.name!r} has no projector {name!r:.100}; {suggest(name, known)}"
        )
    return max(found, key=lambda projector: projector.version)


def _is_within(row: StoredEvent, since: float | None, until: float | None) -> bool:
    return (since is None or row.stored_at >= since) and (until is None or row.stored_at < until)
