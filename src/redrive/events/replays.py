"""Replays of events: one event through selected projectors, or many failed projections as a bulk replay."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotFoundError, ReplayRefusedError
from redrive.events.projector import Projector
from redrive.events.queries import replayable
from redrive.events.recorder import FurtherRun, PlannedRun, Written, event_of_row
from redrive.events.service_parts import EventParts
from redrive.model.audit import Action, NewEntry
from redrive.model.fact import SENTENCE, Fact, fact
from redrive.model.operation import MAX_ITEMS, Plan
from redrive.model.stream import UNFINISHED_PROJECTIONS, ProjectionRecord, ProjectionStatus, StoredEvent
from redrive.policy.bounds import require_list, require_whole
from redrive.policy.user_text import clean_reason
from redrive.words.fact import text_of
from redrive.words.suggestion import suggest

_RETRIED = (ProjectionStatus.DEAD, ProjectionStatus.FAILED)


class ReplayAction(StrEnum):
    """What a replay of an event does with a projection.

    RETRY  queues its failed run again, with its dead letter
    START  starts a new run under the same idempotency key
    NONE   nothing: `obstacle` says why
    """

    RETRY = "retry"
    START = "start"
    NONE = "none"


class ProjectionReplay(NamedTuple):
    """What a replay does, or has done, with one projection of an event.

    status    the state of the projection before; None if it has never been executed
    run_id    the run that is executed
    obstacle  why nothing is executed
    """

    projector: str
    version: int
    action: ReplayAction
    status: ProjectionStatus | None
    run_id: str | None
    obstacle: Fact | None


class _Candidate(NamedTuple):
    """A projection of an event: as declared, as stored, or both."""

    name: str
    version: int
    projector: Projector | None
    record: ProjectionRecord | None

    def replay(self, row: StoredEvent) -> ProjectionReplay:
        action, run_id, obstacle = self._decide(row)
        status = None if self.record is None else self.record.status
        return ProjectionReplay(self.name, self.version, action, status, run_id, obstacle)

    def _decide(self, row: StoredEvent) -> tuple[ReplayAction, str | None, Fact | None]:
        record, projector = self.record, self.projector
        if record is not None and record.status in UNFINISHED_PROJECTIONS:
            obstacle = fact("projection_unfinished", status=str(record.status))
            return ReplayAction.NONE, record.run_id, obstacle
        if record is not None and record.status in _RETRIED:
            return ReplayAction.RETRY, record.run_id, None
        if projector is None:
            obstacle = fact("projector_not_declared", projector=self.name, version=self.version)
            return ReplayAction.NONE, None, obstacle
        if record is None and not projector.wants(event_of_row(row, None)):
            return ReplayAction.NONE, None, fact("projector_ignores_type", type=row.type)
        return ReplayAction.START, None, None


class EventReplays:
    """Replays events of the caller's organization."""

    def __init__(self, parts: EventParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._caller = parts.caller

    async def plan(self, query: str, /, *, limit: int | None = None, **options: Any) -> Plan:
        """Plan a bulk replay of the failed projections that match the query, such as "is:failed type:score".

        limit    how many dead letters at most, those of the oldest events first
        options  those of `app.failures().plans.create`: canary, rate, failure_rate, reason, …

        Start the plan with `app.failures().plans.start`.
        """
        if limit is not None:
            require_whole("limit", limit, 1, MAX_ITEMS)
        most = MAX_ITEMS + 1 if limit is None else limit
        letters = await self._store.event_lists.letters(replayable(query), self._caller.org, most)
        if len(letters) > MAX_ITEMS:
            raise InvalidValueError(
                f"more than {MAX_ITEMS:,} dead letters match, the maximum for one bulk replay; narrow the "
                f"query, for example with since: and until:, or pass a limit"
            )
        return await self._parts.plan(ids=letters, **options)

    async def preview(self, event_id: str, projectors: Sequence[str] | None = None) -> list[ProjectionReplay]:
        """Return what `start` would do with each projection."""
        row = await self._store.events.get(event_id, self._caller.org)
        return [candidate.replay(row) for candidate in await self._candidates(row, projectors)]

    async def start(
        self, event_id: str, projectors: Sequence[str] | None = None, *, reason: str = ""
    ) -> list[ProjectionReplay]:
        """Execute projectors for a stored event again: the named ones, or all.

        A failed projection continues its run, a finished one gets a new run. Its task sees the same event and
        the same idempotency key. Raises ReplayRefusedError if nothing can be executed.
        """
        why = clean_reason(reason, self._parts.redactor)
        row = await self._store.events.get(event_id, self._caller.org)
        candidates = await self._candidates(row, projectors)
        replays = [candidate.replay(row) for candidate in candidates]
        if all(replay.action is ReplayAction.NONE for replay in replays):
            raise ReplayRefusedError(_refusal(row, replays))
        started = await self._start(row, candidates, replays, why)
        done = []
        for replay in replays:
            if replay.action is ReplayAction.RETRY:
                done.append(await self._retry(replay, why))
            elif replay.action is ReplayAction.START:
                done.append(_started(replay, started))
            else:
                done.append(replay)
        return done

    async def _retry(self, replay: ProjectionReplay, reason: str) -> ProjectionReplay:
        try:
            await self._parts.retry_run(str(replay.run_id), reason=reason)
        except ReplayRefusedError as error:
            obstacle = fact(SENTENCE, text=str(error))
            return replay._replace(action=ReplayAction.NONE, obstacle=obstacle)
        return replay

    async def _candidates(self, row: StoredEvent, names: Sequence[str] | None) -> list[_Candidate]:
        records = await self._store.events.records(row.id, row.org)
        stream = self._parts.streams.get(row.stream)
        declared = [] if stream is None or row.org not in stream.orgs else stream.projectors
        known = {(projector.name, projector.version): projector for projector in declared}
        stored = {(record.projector, record.version): record for record in records}
        keys = sorted(known | stored)
        if names is None:
            wanted = [key for key in keys if key in stored or known[key].wants(event_of_row(row, None))]
        else:
            require_list("projectors", names, "names of projectors")
            _check_names(names, {name for name, _ in keys})
            wanted = [key for key in keys if key[0] in names]
        return [_Candidate(*key, known.get(key), stored.get(key)) for key in wanted]

    async def _start(
        self,
        row: StoredEvent,
        candidates: Sequence[_Candidate],
        replays: Sequence[ProjectionReplay],
        reason: str,
    ) -> Written | None:
        recorder = self._parts.recorder
        further = [
            _further(recorder.prepare_again(row, candidate.projector, _run_of(candidate)), candidate)
            for candidate, replay in zip(candidates, replays, strict=True)
            if replay.action is ReplayAction.START and candidate.projector is not None
        ]
        if not further:
            return None
        await recorder.define_runs([run.planned for run in further])
        async with self._store.database.transaction() as session:
            if not await self._store.event_runs.lock(session, [row.id], row.org):
                raise NotFoundError(f"the event {row.id} was removed after its retention period")
            written = await recorder.begin_again(session, further)
            if written.runs:
                started = sorted({run.workflow for run in written.runs})
                detail = {"reason": reason, "projectors": started}
                entry = NewEntry(*self._caller, Action.EVENT_REPLAYED, (row.id,), detail)
                await self._store.audit.append(session, [entry])
        await recorder.announce(written)
        return written


def _run_of(candidate: _Candidate) -> str | None:
    return None if candidate.record is None else candidate.record.run_id


def _further(planned: PlannedRun, candidate: _Candidate) -> FurtherRun:
    return FurtherRun(planned, _run_of(candidate))


def _started(replay: ProjectionReplay, written: Written | None) -> ProjectionReplay:
    """Add the run that was started; none if another request was faster."""
    task = f":{replay.projector}:v{replay.version}"
    for run in () if written is None else written.runs:
        if run.workflow.endswith(task):
            return replay._replace(run_id=run.id)
    return replay._replace(action=ReplayAction.NONE, obstacle=fact("projection_changed"))


def _check_names(names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise NotFoundError(
                f"the event has no projector {name!r:.100}; {suggest(str(name), sorted(known))}"
            )


def _refusal(row: StoredEvent, replays: Sequence[ProjectionReplay]) -> str:
    if not replays:
        return f"no projector processes the event {row.id}"
    obstacles = "; ".join(
        f"{replay.projector} v{replay.version}: {text_of(replay.obstacle)}"
        for replay in replays
        if replay.obstacle is not None
    )
    return f"the event {row.id} was not replayed: {obstacles}"
