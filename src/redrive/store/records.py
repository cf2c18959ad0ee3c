"""Recording what came of claims: fenced writes, in batches, each with everything that belongs to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from redrive.errors import NotStorableError
from redrive.model.dead_letter import DeadLetter
from redrive.model.run import Place, RunEvent, RunState
from redrive.model.step import AttemptRecord, FinishedStep, StepState
from redrive.policy.codec import decode
from redrive.store.database import Session
from redrive.store.dead_letter_writer import TOO_MANY, DeadLetterWriter, RejectedLetter
from redrive.store.record import (
    UNBURIED,
    Advanced,
    Change,
    Completed,
    CompletedPartly,
    NewDeadLetter,
    Occupied,
    Parked,
    Progress,
    Record,
    Recorded,
    Rescheduled,
    Stopped,
)
from redrive.store.replays import ReplayStore
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow

_SQL = statements(
    "records",
    Completed,
    CompletedPartly,
    Advanced,
    Rescheduled,
    Stopped,
    Parked,
    Occupied,
    Progress,
    AttemptRecord,
    FinishedStep,
    RunEvent,
    DeadLetter,
    NewDeadLetter,
    WorkRow,
)
_STATEMENTS: dict[type, str] = {
    Completed: "complete",
    CompletedPartly: "complete_partly",
    Advanced: "advance",
    Rescheduled: "reschedule",
    Stopped: "stop",
    Parked: "park",
}

_AT = {str(place): Recorded(place) for place in Place}
"""What most records change is the place of their run, and nothing else: they share one value."""

Write = Callable[[Sequence[Change], dict[str, Recorded]], Awaitable[None]]
"""Writes changes and adds to the dictionary what they have changed, by the ids of their runs. That holds once
it returns; when it raises, some or all of it may hold."""


class Records:
    def __init__(self, session: Session, replays: ReplayStore, letter_writer: DeadLetterWriter) -> None:
        self._session = session
        self._replays = replays
        self.letter_writer = letter_writer

    async def record(self, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write up to one record per run, all or nothing. A run without an answer has lost its lease."""
        return await self.batch(records).write()

    def batch(self, records: Sequence[Record]) -> RecordBatch:
        """The same for callers that try again after an error."""
        by_run = {record.change.id: record for record in records}
        return RecordBatch(self, [record.change for record in records], partial(self._record, by_run))

    def completions(self, changes: Sequence[Completed | Advanced]) -> RecordBatch:
        """Complete runs of one step and change nothing else: in one statement, without a transaction."""
        return RecordBatch(self, changes, partial(self._change, self._session))

    def finished_steps(
        self, changes: Sequence[Completed | Advanced], steps: Sequence[FinishedStep]
    ) -> RecordBatch:
        """Complete or advance runs of several steps and insert the finished steps, one for each change."""
        return RecordBatch(self, changes, partial(self._finish, {step.run_id: step for step in steps}))

    async def _record(
        self, records: Mapping[str, Record], changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        async with self._session.transaction() as session:
            recorded |= await self.record_within(session, [records[change.id] for change in changes])

    async def _finish(
        self, steps: Mapping[str, FinishedStep], changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        async with self._session.transaction() as session:
            await self._change(session, changes, recorded)
            await session.fetch_many(_SQL["insert_step"], [steps[run_id] for run_id in recorded])

    async def _change(
        self, session: Session, changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        """Change the runs that still carry token and epoch: one statement for each kind of change.

        A run that does not go on under the same lease is handed over.
        """
        by_kind: dict[type, list[Change]] = {}
        for change in _ordered(changes):
            by_kind.setdefault(type(change), []).append(change)
        for kind, statement in _STATEMENTS.items():
            if kind in by_kind:
                rows = await session.fetch_many(_SQL[statement], by_kind[kind])
                recorded.update({row[0]: _AT[row[1]] for row in rows})
        left = [change for change in by_kind.get(Advanced, ()) if change.id not in recorded]
        if left:
            rows = await session.fetch_many(_SQL["hand_over"], left)
            recorded.update({row[0]: _AT[row[1]] for row in rows})

    async def record_within(self, session: Session, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write records as part of a transaction: what they changed holds once it is committed."""
        rejected = await self._rejected(session, records)
        records = [_without_letter(record) if record.change.id in rejected else record for record in records]
        noted = await self._noted_slots(session, [record.change for record in records if record.limited])
        won: dict[str, Recorded] = {}
        await self._change(session, [record.change for record in records], won)
        written = [record for record in records if record.change.id in won]
        await self._write_beside(session, written)
        freed = _freed(slots for run_id, slots in noted.items() if slots and run_id in won)
        if freed:
            await session.fetch_many(_SQL["free_slots"], freed)
        for run_id in rejected & won.keys():
            won[run_id] = won[run_id]._replace(rejected=True)
        await self._write_letters(session, written, won)
        return won

    async def _rejected(self, session: Session, records: Sequence[Record]) -> set[str]:
        """The runs that have no room among the dead letters. What is replayed for one has its place."""
        new = [each.dead_letter for each in records if each.dead_letter and not _has_place(each)]
        return await self.letter_writer.refused(session, new) if new else set()

    async def _write_letters(
        self, session: Session, records: Sequence[Record], won: dict[str, Recorded]
    ) -> None:
        """Last of all: every transaction waits for their counters and for the heads of the audit chain."""
        letters = [record.dead_letter for record in records if record.dead_letter]
        settlements = [record.settlement for record in records if record.settlement]
        if not letters and not settlements:
            return
        locked = await self._replays.lock_letters(session, settlements)
        letters = await self._insert_letters(session, letters) if letters else []
        settled = await self._replays.settle(session, settlements, locked)
        changes = await self.letter_writer.written(session, letters, settled)
        for replay in settled:
            recorded = won[replay.run_id]
            won[replay.run_id] = recorded._replace(replays=(*recorded.replays, replay))
        reopened = {(change.org, change.fingerprint): change for change in changes}
        for letter in letters:
            # Several letters may share a group: the first one opened it again.
            change = reopened.pop((letter.org, letter.fingerprint), None)
            won[letter.run_id] = won[letter.run_id]._replace(letter_id=letter.id, group_change=change)

    async def add_letter(self, session: Session, letter: NewDeadLetter, by: str) -> Recorded:
        """Write a dead letter of a run that has ended before, unless the run has a live one already."""
        [written] = await self._insert_letters(session, [letter])
        if written.id != letter.id:
            return Recorded(Place.ENDED, written.id)
        changes = await self.letter_writer.written(session, [letter], [], by)
        return Recorded(Place.ENDED, letter.id, group_change=changes[0] if changes else None)

    async def _insert_letters(
        self, session: Session, letters: Sequence[NewDeadLetter]
    ) -> list[NewDeadLetter]:
        """The letters with their ids: a step that already has a live letter keeps that one's."""
        settings = {(letter.org, letter.settings): letter for letter in letters}
        await session.fetch_many(_SQL["insert_settings"], [settings[key] for key in sorted(settings)])
        ids = {row[0]: row[1] for row in await session.fetch_many(_SQL["insert_dead_letter"], letters)}
        return [letter.replace(id=ids.get(letter.run_id, letter.id)) for letter in letters]

    async def applied(self, changes: Sequence[Change]) -> tuple[dict[str, str], set[str]]:
        """After a commit whose outcome is unknown: what was written, and the ids that still can be."""
        changes = _ordered(changes)
        found = {row[0]: row for row in await self._session.fetch_many(_SQL["settled"], changes)}
        fates = {each.id: _fate(each, *found[each.id][1:]) for each in changes if each.id in found}
        written = {each: found[each][3] for each in fates if fates[each] == "written"}
        return written, {each for each in fates if fates[each] == "open"}

    async def occupied(self, session: Session, claims: Sequence[Occupied]) -> dict[str, str | None]:
        """The slots that these claims have noted so far; what is not in it has lost its lease."""
        return {row[0]: row[1] for row in await session.fetch_many(_SQL["occupied"], claims)}

    async def occupy(self, session: Session, claims: Sequence[Occupied]) -> None:
        """Note on the runs which slots they have taken."""
        await session.fetch_many(_SQL["occupy"], claims)

    async def note_progress(self, several: Sequence[Progress]) -> None:
        await self._session.fetch_many(_SQL["progress"], sorted(several, key=lambda each: each.id))

    async def note_events(self, events: Sequence[RunEvent]) -> None:
        await self._session.fetch_many(_SQL["insert_event"], events)

    async def _noted_slots(self, session: Session, changes: Sequence[Change]) -> dict[str, str | None]:
        """The slots that the rows themselves note: taking them may have been rolled back after all."""
        claims = [
            Occupied(id=each.id, token=each.token, epoch=each.epoch, slots=None) for each in _ordered(changes)
        ]
        return await self.occupied(session, claims) if claims else {}

    async def _write_beside(self, session: Session, records: Sequence[Record]) -> None:
        for statement, rows in (
            (_SQL["insert_attempt"], [each.attempt for each in records if each.attempt]),
            (_SQL["insert_step"], [each.step for each in records if each.step]),
            (_SQL["insert_event"], [each.event for each in records if each.event]),
        ):
            if rows:
                await session.fetch_many(statement, rows)


class RecordBatch:
    """Changes that are written once, however often `write` is tried."""

    def __init__(self, store: Records, changes: Sequence[Change], write: Write) -> None:
        self._store = store
        self._rest = changes
        self._write = write
        self._recorded: dict[str, Recorded] = {}
        self._unconfirmed: dict[str, Recorded] = {}
        self._tried = False

    async def write(self) -> dict[str, Recorded]:
        if self._tried:  # the commit may have succeeded nevertheless: look first, then write what is missing
            places, still_open = await self._store.applied(self._rest)
            for run_id, place in places.items():
                self._recorded[run_id] = self._unconfirmed.get(run_id) or _AT[place]
            self._rest = [change for change in self._rest if change.id in still_open]
        self._tried = True
        if self._rest:
            self._unconfirmed = {}
            await self._write(self._rest, self._unconfirmed)
            self._recorded |= self._unconfirmed
        return self._recorded


class _Freed(NamedTuple):
    name: str
    freed: int


def _freed(slots: Iterable[str]) -> list[_Freed]:
    """In order of names: whoever locks several counters locks them in the same order."""
    counts = Counter(name for each in slots for name in slot_names(each))
    return [_Freed(name, count) for name, count in sorted(counts.items())]


def slot_names(slots: str) -> list[str]:
    """The limits whose slots a run has noted."""
    try:
        names = decode(slots)
    except NotStorableError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _has_place(record: Record) -> bool:
    return record.settlement is not None and record.settlement.has_letter == 1


def _without_letter(record: Record) -> Record:
    """The same ending without a dead letter."""
    letter, change = record.dead_letter, record.change
    if letter is None or not isinstance(change, Stopped):
        return record
    mark = (letter.fingerprint, letter.fingerprint_reason, letter.title)
    told = str(RejectedLetter(TOO_MANY, *mark, int(letter.may_have_executed)))
    step_index = 0 if record.attempt is None else record.attempt.step_index
    event = RunEvent(id=letter.id, run_id=letter.run_id, kind=UNBURIED, step_index=step_index, detail=told)
    failed = change.replace(state=RunState.FAILED, step_state=StepState.FAILED)
    return record._replace(change=failed, dead_letter=None, event=event)


def _ordered(changes: Iterable[Change]) -> list[Change]:
    """In order of ids: two batches that share rows then do not wait for each other crosswise."""
    return sorted(changes, key=lambda change: change.id)


def _fate(change: Change, token: int, epoch: int, place: str) -> str:
    if token != change.token:
        return "lost"
    if epoch == change.epoch:
        return "open" if place == "leased" else "written"
    goes_on = isinstance(change, Advanced) and change.in_place == 1 and epoch == change.epoch + 1
    return "written" if goes_on else "lost"
