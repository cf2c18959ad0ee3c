"""Recording the outcomes of claims: fenced writes in batches, each with all rows that belong to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from redrive.errors import NotStorableError
from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.run import Place, RunEvent
from redrive.model.step import AttemptRecord, FinishedStep
from redrive.policy.codec import decode
from redrive.store.database import Session
from redrive.store.dead_letter_writer import DeadLetterWriter
from redrive.store.record import (
    Advanced,
    AdvancedStep,
    Change,
    Completed,
    CompletedPartly,
    CompletedStep,
    NewDeadLetter,
    Occupied,
    Parked,
    Progress,
    Record,
    Recorded,
    Rescheduled,
    Stopped,
)
from redrive.store.replays import LetterChange, LockedLetter, ReplayStore, Settled
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow

_SQL = statements(
    "records",
    Completed,
    CompletedPartly,
    CompletedStep,
    Advanced,
    AdvancedStep,
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
"""Most records change only the place of their run; they share one value per place."""

Write = Callable[[Sequence[Change], dict[str, Recorded]], Awaitable[None]]
"""Writes changes and adds their effects to the dictionary, by run id. If it raises, the dictionary is not
certain: the database may have committed some or all of the effects."""


class Records:
    def __init__(self, session: Session, replays: ReplayStore, letter_writer: DeadLetterWriter) -> None:
        self._session = session
        self._replays = replays
        self.letter_writer = letter_writer

    async def record(self, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write one record per run, all or nothing. A run missing from the answer has lost its lease."""
        return await self.batch(records).write()

    def batch(self, records: Sequence[Record]) -> RecordBatch:
        """Prepare the same for callers that try again after an error."""
        by_run = {record.change.id: record for record in records}
        return RecordBatch(self, [record.change for record in records], partial(self._record, by_run))

    def completions(self, changes: Sequence[Completed | Advanced]) -> RecordBatch:
        """Complete or advance runs and write nothing else, without a transaction."""
        return RecordBatch(self, changes, partial(self._change, self._session))

    def finished_steps(
        self, changes: Sequence[Completed | Advanced], steps: Sequence[FinishedStep]
    ) -> RecordBatch:
        """Complete or advance runs of several steps and insert the finished steps, one for each change.

        One statement per kind of change does both, which saves the round trips of a transaction. These runs
        were never replayed: only a replay finishes a step that has a row already.
        """
        return RecordBatch(self, changes, partial(self._finish, {step.run_id: step for step in steps}))

    async def _record(
        self, records: Mapping[str, Record], changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        async with self._session.transaction() as session:
            recorded |= await self.record_within(session, [records[change.id] for change in changes])

    async def _finish(
        self, steps: Mapping[str, FinishedStep], changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        rows: dict[str, list[AdvancedStep | CompletedStep]] = {"advance_step": [], "complete_step": []}
        for change in _ordered(changes):
            if isinstance(change, Completed):
                rows["complete_step"].append(_completed_step(change, steps[change.id]))
            elif isinstance(change, Advanced) and change.in_place:
                rows["advance_step"].append(_advanced_step(change, steps[change.id]))
        for statement, several in rows.items():
            answer = await self._session.fetch_many(_SQL[statement], several)
            recorded.update({row[0]: _AT[row[1]] for row in answer})
        remaining = [
            change for change in changes if isinstance(change, Advanced) and change.id not in recorded
        ]
        if remaining:
            await self._hand_over(steps, remaining, recorded)

    async def _hand_over(
        self, steps: Mapping[str, FinishedStep], changes: Sequence[Advanced], recorded: dict[str, Recorded]
    ) -> None:
        async with self._session.transaction() as session:
            rows = await session.fetch_many(_SQL["hand_over"], _ordered(changes))
            recorded.update({row[0]: _AT[row[1]] for row in rows})
            await session.fetch_many(_SQL["insert_step"], [steps[row[0]] for row in rows])

    async def _change(
        self, session: Session, changes: Sequence[Change], recorded: dict[str, Recorded]
    ) -> None:
        """Change the runs that still have the token and the epoch, with one statement per kind of change.

        A run that cannot continue under the same lease is handed over.
        """
        by_kind: dict[type, list[Change]] = {}
        for change in _ordered(changes):
            by_kind.setdefault(type(change), []).append(change)
        for kind, statement in _STATEMENTS.items():
            if kind in by_kind:
                rows = await session.fetch_many(_SQL[statement], by_kind[kind])
                recorded.update({row[0]: _AT[row[1]] for row in rows})
        remaining = [change for change in by_kind.get(Advanced, ()) if change.id not in recorded]
        if remaining:
            rows = await session.fetch_many(_SQL["hand_over"], remaining)
            recorded.update({row[0]: _AT[row[1]] for row in rows})

    async def record_within(self, session: Session, records: Sequence[Record]) -> dict[str, Recorded]:
        """Write records in the caller's transaction: they take effect when it commits."""
        noted = await self._noted_slots(session, [record.change for record in records if record.limited])
        won: dict[str, Recorded] = {}
        await self._change(session, [record.change for record in records], won)
        written = [record for record in records if record.change.id in won]
        await self._write_beside(session, written)
        freed = _freed(slots for run_id, slots in noted.items() if slots and run_id in won)
        if freed:
            await session.fetch_many(_SQL["free_slots"], freed)
        await self._write_letters(session, written, won)
        return won

    async def _write_letters(
        self, session: Session, records: Sequence[Record], won: dict[str, Recorded]
    ) -> None:
        """Write dead letters last: other transactions wait for their counters and for the audit heads."""
        letters = [record.dead_letter for record in records if record.dead_letter]
        settlements = [record.settlement for record in records if record.settlement]
        if not letters and not settlements:
            return
        locked = await self._replays.lock_letters(session, settlements)
        letters = await self._insert_letters(session, letters) if letters else []
        settled = await self._replays.settle(session, settlements, locked)
        settled += [_exhausted(letter) for letter in letters if letter.state == DeadLetterState.EXHAUSTED]
        settled += _failed_along(letters, locked, settled)
        changes = await self.letter_writer.count_and_audit(session, letters, settled)
        replays: dict[str, list[Settled | LetterChange]] = {}
        for replay in settled:
            replays.setdefault(replay.run_id, []).append(replay)
        for run_id, several in replays.items():
            won[run_id] = won[run_id]._replace(replays=tuple(several))
        reopened = {(change.org, change.fingerprint): change for change in changes}
        for letter in letters:
            # Several dead letters may share a group: the first one gets its change.
            change = reopened.pop((letter.org, letter.fingerprint), None)
            won[letter.run_id] = won[letter.run_id]._replace(letter_id=letter.id, group_change=change)

    async def add_letter(self, session: Session, letter: NewDeadLetter, by: str) -> Recorded:
        """Write a dead letter for a run that ended earlier, unless the run already has a live one."""
        [written] = await self._insert_letters(session, [letter])
        if written.id != letter.id:
            return Recorded(Place.ENDED, written.id)
        changes = await self.letter_writer.count_and_audit(session, [letter], [], by)
        return Recorded(Place.ENDED, letter.id, group_change=changes[0] if changes else None)

    async def _insert_letters(
        self, session: Session, letters: Sequence[NewDeadLetter]
    ) -> list[NewDeadLetter]:
        """Insert dead letters; return them with their ids: a step with a live dead letter keeps that id."""
        settings = {(letter.org, letter.settings): letter for letter in letters}
        await session.fetch_many(_SQL["insert_settings"], [settings[key] for key in sorted(settings)])
        ids = {row[0]: row[1] for row in await session.fetch_many(_SQL["insert_dead_letter"], letters)}
        return [letter.replace(id=ids.get(letter.run_id, letter.id)) for letter in letters]

    async def applied(self, changes: Sequence[Change]) -> tuple[dict[str, str], set[str]]:
        """Find out, after a commit with an unknown outcome, what was written and which ids still can be.

        Returns the place of each written run, and the ids of the runs to write again.
        """
        changes = _ordered(changes)
        found = {row[0]: row for row in await self._session.fetch_many(_SQL["settled"], changes)}
        fates = {change.id: _fate(change, *found[change.id][1:]) for change in changes if change.id in found}
        written = {run_id: found[run_id][3] for run_id in fates if fates[run_id] == "written"}
        return written, {run_id for run_id in fates if fates[run_id] == "open"}

    async def occupied(self, session: Session, claims: Sequence[Occupied]) -> dict[str, str | None]:
        """Return the slots noted by these claims. A claim missing from the answer has lost its lease."""
        return {row[0]: row[1] for row in await session.fetch_many(_SQL["occupied"], claims)}

    async def occupy(self, session: Session, claims: Sequence[Occupied]) -> None:
        """Note on runs the slots that they have taken."""
        await session.fetch_many(_SQL["occupy"], claims)

    async def note_progress(self, several: Sequence[Progress]) -> None:
        await self._session.fetch_many(_SQL["progress"], sorted(several, key=lambda progress: progress.id))

    async def note_events(self, events: Sequence[RunEvent]) -> None:
        await self._session.fetch_many(_SQL["insert_event"], events)

    async def _noted_slots(self, session: Session, changes: Sequence[Change]) -> dict[str, str | None]:
        """Read the slots from the rows: the transaction that took them may have been rolled back."""
        claims = [
            Occupied(id=change.id, token=change.token, epoch=change.epoch, slots=None)
            for change in _ordered(changes)
        ]
        return await self.occupied(session, claims) if claims else {}

    async def _write_beside(self, session: Session, records: Sequence[Record]) -> None:
        for statement, rows in (
            (_SQL["insert_attempt"], [record.attempt for record in records if record.attempt]),
            (_SQL["insert_step"], [record.step for record in records if record.step]),
            (_SQL["insert_event"], [record.event for record in records if record.event]),
        ):
            if rows:
                await session.fetch_many(statement, rows)


class RecordBatch:
    """Changes that are written exactly once, however often `write` is called."""

    def __init__(self, store: Records, changes: Sequence[Change], write: Write) -> None:
        self._store = store
        self._rest = changes
        self._write = write
        self._recorded: dict[str, Recorded] = {}
        self._unconfirmed: dict[str, Recorded] = {}
        self._tried = False

    async def write(self) -> dict[str, Recorded]:
        if self._tried:  # the failed try may have committed: look first, then write what is missing
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


def _exhausted(letter: NewDeadLetter) -> LetterChange:
    """The last automatic redrive of a dead letter has failed."""
    after, action = DeadLetterState.EXHAUSTED.value, Action.DEAD_LETTER_EXHAUSTED
    return LetterChange(letter.org, letter.id, letter.run_id, SELF, after, action)


def _failed_along(
    letters: Sequence[NewDeadLetter],
    locked: Sequence[LockedLetter],
    settled: Sequence[Settled | LetterChange],
) -> list[LetterChange]:
    """Dead letters of later steps that failed again in the replay of an earlier one, which alone it names."""
    along = {letter.id for letter in locked if letter.state == DeadLetterState.REPLAYING}
    along -= {change.letter_id for change in settled}
    after, action = DeadLetterState.OPEN.value, Action.DEAD_LETTER_REOPENED
    return [
        LetterChange(letter.org, letter.id, letter.run_id, SELF, after, action)
        for letter in letters
        if letter.id in along
    ]


class _Freed(NamedTuple):
    name: str
    freed: int


def _freed(slots: Iterable[str]) -> list[_Freed]:
    """Count the freed slots, sorted by name: all transactions lock counters in this order."""
    counts = Counter(name for noted in slots for name in slot_names(noted))
    return [_Freed(name, count) for name, count in sorted(counts.items())]


def slot_names(slots: str) -> list[str]:
    """Return the limits whose slots a run has noted; none if the text is damaged."""
    try:
        names = decode(slots)
    except NotStorableError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _advanced_step(change: Advanced, step: FinishedStep) -> AdvancedStep:
    return AdvancedStep(
        id=change.id,
        token=change.token,
        epoch=change.epoch,
        step_input=change.step_input,
        queue=change.queue,
        ttl=change.ttl,
        name=step.name,
        task=step.task,
        attempts=step.attempts,
        started_at=step.started_at,
    )


def _completed_step(change: Completed, step: FinishedStep) -> CompletedStep:
    return CompletedStep(
        id=change.id,
        token=change.token,
        epoch=change.epoch,
        result=change.result,
        name=step.name,
        task=step.task,
    )


def _ordered(changes: Iterable[Change]) -> list[Change]:
    """Sort changes by id, so that concurrent batches cannot deadlock."""
    return sorted(changes, key=lambda change: change.id)


def _fate(change: Change, token: int, epoch: int, place: str) -> str:
    if token != change.token:
        return "lost"
    if epoch == change.epoch:
        return "open" if place == "leased" else "written"
    goes_on = isinstance(change, Advanced) and change.in_place == 1 and epoch == change.epoch + 1
    return "written" if goes_on else "lost"
