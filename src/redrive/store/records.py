"""Recording what came of claims: fenced writes, in batches, each with everything that belongs to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import NamedTuple

from redrive.errors import NotStorableError
from redrive.model.failure_group import GroupChange
from redrive.model.run import RunState
from redrive.model.step import StepState
from redrive.policy.codec import decode
from redrive.store.database import Database, Session
from redrive.store.dead_letter_writer import TOO_MANY, DeadLetterWriter, RejectedLetter
from redrive.store.record import (
    UNBURIED,
    Advanced,
    AttemptRow,
    Change,
    Completed,
    CompletedPartly,
    DeadLetterRow,
    EventRow,
    Occupied,
    Parked,
    Progress,
    Record,
    Rescheduled,
    StepRow,
    Stopped,
)
from redrive.store.replays import Replays, Resolved, Settled
from redrive.store.statement import statements

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
    AttemptRow,
    StepRow,
    EventRow,
    DeadLetterRow,
)
_STATEMENTS = {
    Completed: _SQL["complete"],
    CompletedPartly: _SQL["complete_partly"],
    Advanced: _SQL["advance"],
    Rescheduled: _SQL["reschedule"],
    Stopped: _SQL["stop"],
    Parked: _SQL["park"],
}


class Records:
    """`noticed` gathers what else was brought about, for whoever tells it."""

    def __init__(self, database: Database, replays: Replays, letter_writer: DeadLetterWriter) -> None:
        self._database = database
        self._replays = replays
        self.letter_writer = letter_writer
        self.noticed: Noticed = []

    async def record(self, records: Sequence[Record]) -> dict[str, str]:
        """Write what came of claims, at most one record a run; where those lie now that had their lease."""
        if all(_is_plain(record) for record in records):
            rows = await self._database.fetch_many(
                _SQL["complete"], _ordered(each.change for each in records)
            )
            return {row[0]: row[1] for row in rows}
        async with self._database.transaction() as session:
            places, noticed = await self._record(session, records)
        self.noticed += noticed
        return places

    async def record_within(self, session: Session, records: Sequence[Record]) -> dict[str, str]:
        return (await self._record(session, records))[0]

    async def _record(self, session: Session, records: Sequence[Record]) -> tuple[dict[str, str], Noticed]:
        refused = await self._refused(session, records)
        records = [_unburied(each) if each.change.id in refused else each for each in records]
        noted = await self._noted_slots(session, [each.change for each in records if each.limited])
        won: dict[str, str] = {}
        for kind, statement in _STATEMENTS.items():
            changes = _ordered(each.change for each in records if type(each.change) is kind)
            if changes:
                won |= {row[0]: row[1] for row in await session.fetch_many(statement, changes)}
        written = [each for each in records if each.change.id in won]
        await self._write_beside(session, written)
        freed = _freed(slots for run_id, slots in noted.items() if slots and run_id in won)
        if freed:
            await session.fetch_many(_SQL["free_slots"], freed)
        noticed = await self._write_letters(session, written)
        return won | dict.fromkeys(refused & won.keys(), UNBURIED), noticed

    async def _refused(self, session: Session, records: Sequence[Record]) -> set[str]:
        """The runs that have no room among the dead letters. What is replayed for one has its place."""
        new = [each.dead_letter for each in records if each.dead_letter and not _has_place(each)]
        return await self.letter_writer.refused(session, new) if new else set()

    async def _write_letters(self, session: Session, records: Sequence[Record]) -> Noticed:
        """Last of all: their counters and the heads of the audit are what everybody waits for."""
        letters = [each.dead_letter for each in records if each.dead_letter]
        settlements = [each.settlement for each in records if each.settlement]
        if not letters and not settlements:
            return []
        if settlements:
            await self._replays.lock_letters(session, settlements)
        kept = await self._insert_letters(session, letters) if letters else {}
        letters = [each._replace(id=kept[each.run_id]) if each.run_id in kept else each for each in letters]
        settled = await self._replays.settle(session, settlements) if settlements else []
        changes = await self.letter_writer.written(session, letters, settled)
        return [*settled, *changes, *starmap(Kept, kept.items())]

    async def bury(self, session: Session, letter: DeadLetterRow, by: str) -> str:
        """Write a dead letter of a run that has ended already; its id, or that of the live one it has."""
        kept = await self._insert_letters(session, [letter])
        if letter.run_id not in kept:
            await self.letter_writer.written(session, [letter], [], by)
        return kept.get(letter.run_id, letter.id)

    async def _insert_letters(self, session: Session, letters: Sequence[DeadLetterRow]) -> dict[str, str]:
        """The letters, by their runs, that were there already and go on telling the story of their step."""
        rows = await session.fetch_many(_SQL["insert_dead_letter"], letters)
        new = {each.id for each in letters}
        return {run_id: letter_id for run_id, letter_id in rows if letter_id not in new}

    async def applied(self, records: Sequence[Record]) -> tuple[dict[str, str], set[str]]:
        """After a commit whose outcome is unknown: what was written, and the ids that still can be."""
        changes = _ordered(each.change for each in records)
        found = {row[0]: row for row in await self._database.fetch_many(_SQL["settled"], changes)}
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
        await self._database.fetch_many(_SQL["progress"], sorted(several))

    async def note_events(self, events: Sequence[EventRow]) -> None:
        await self._database.fetch_many(_SQL["insert_event"], events)

    async def _noted_slots(self, session: Session, changes: Sequence[Change]) -> dict[str, str | None]:
        """The slots that the rows themselves note: taking them may have been rolled back after all."""
        claims = [Occupied(each.id, each.token, each.epoch, None) for each in _ordered(changes)]
        return await self.occupied(session, claims) if claims else {}

    async def _write_beside(self, session: Session, records: Sequence[Record]) -> None:
        for statement, rows in (
            (_SQL["insert_attempt"], [each.attempt for each in records if each.attempt]),
            (_SQL["insert_step"], [each.step for each in records if each.step]),
            (_SQL["insert_event"], [each.event for each in records if each.event]),
        ):
            if rows:
                await session.fetch_many(statement, rows)


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


class Kept(NamedTuple):
    """The dead letter of a step that has failed once more is the one that it had."""

    run_id: str
    letter_id: str


Noticed = list[Settled | Resolved | GroupChange | Kept]
"""What was brought about beside: replays that have ended, failure groups that are open again, ..."""

_NOTHING_BESIDE = (None,) * (len(Record._fields) - 2) + (False,)


def _has_place(record: Record) -> bool:
    return record.settlement is not None and record.settlement.has_letter == 1


def _unburied(record: Record) -> Record:
    """The same ending without a dead letter."""
    letter, change = record.dead_letter, record.change
    if letter is None or not isinstance(change, Stopped):
        return record
    mark = (letter.fingerprint, letter.fingerprint_reason, letter.title)
    told = str(RejectedLetter(TOO_MANY, *mark, letter.may_have_executed))
    step_index = 0 if record.attempt is None else record.attempt.step_index
    event = EventRow(letter.id, letter.run_id, UNBURIED, step_index, told)
    failed = change._replace(state=RunState.FAILED, step_state=StepState.FAILED)
    return record._replace(change=failed, dead_letter=None, event=event)


def _is_plain(record: Record) -> bool:
    return type(record.change) is Completed and record[1:] == _NOTHING_BESIDE


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
