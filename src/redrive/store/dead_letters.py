"""Dead letters: reading them and the actions of people on them. Every statement filters by org."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import NotFoundError
from redrive.model.dead_letter import LIVE, DeadLetter, DeadLetterLine, Note
from redrive.model.field import JsonList
from redrive.model.row import Row
from redrive.model.statistics import LifetimeStats
from redrive.store.database import Session, findable
from redrive.store.dead_letter_listing import DeadLetterListing, read_letters
from redrive.store.rows import read_rows
from redrive.store.statement import statements

MAX_NOTES = 1_000


class Locked(Row, frozen=True):
    id: str
    state: str
    tags: JsonList
    assignee: str | None
    updated_at: float
    replay_count: int


class LetterRunState(NamedTuple):
    """The state of the run of a dead letter, and the newest later dead letter of the same step."""

    id: str
    step_index: int
    run_state: str
    run_step_index: int
    newer: str | None


class LetterClosing(NamedTuple):
    """The closing of dead letters: the values that all of them get."""

    org: str
    state: str
    by: str
    reason: str


class LetterTags(NamedTuple):
    id: str
    org: str
    tags: str | None


class LetterFigures(NamedTuple):
    """Counts of dead letters. Categories and redrive policies count live dead letters only."""

    by_state: Mapping[str, int]
    by_category: Mapping[str, int]
    by_redrive: Mapping[str, int]
    lifetime: LifetimeStats

    @property
    def queue_size(self) -> int:
        return sum(self.by_state.get(state, 0) for state in LIVE)


class LetterKey(NamedTuple):
    id: str
    org: str


class ClosedLetter(NamedTuple):
    id: str
    org: str
    state: str
    by: str
    reason: str


class LetterAssignment(NamedTuple):
    id: str
    org: str
    assignee: str | None


_SQL = statements(
    "dead_letters",
    DeadLetter,
    DeadLetterLine,
    Note,
    Locked,
    LetterKey,
    ClosedLetter,
    LetterAssignment,
    LetterTags,
)


class DeadLetterStore(DeadLetterListing):
    async def get(self, letter_id: str, org: str) -> DeadLetter:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(letter_id), "org": org})
        if not rows:
            raise NotFoundError(f"found no dead letter {letter_id!r:.200}")
        return read_letters(DeadLetter, rows)[0]

    async def of_run(self, run_id: str, org: str) -> list[DeadLetter]:
        """Return the dead letters of a run, oldest first."""
        rows = await self._session.fetch(_SQL["of_run"], {"run_id": run_id, "org": org})
        return read_letters(DeadLetter, rows)

    async def lines_by_ids(self, ids: Sequence[str], org: str) -> list[DeadLetterLine]:
        """Return the dead letters that exist among these ids, in the same order."""
        rows = await self._session.fetch_many(_SQL["lines"], _in_order(ids, org))
        known = {letter.id: letter for letter in read_letters(DeadLetterLine, rows)}
        return [known[letter_id] for letter_id in ids if letter_id in known]

    async def lock_runs(self, session: Session, ids: Sequence[str], org: str) -> None:
        """Lock the runs of these dead letters; call it before `lock`."""
        await session.fetch_many(_SQL["lock_runs"], _in_order(ids, org))

    async def lock(self, session: Session, ids: Sequence[str], org: str) -> dict[str, Locked]:
        rows = await session.fetch_many(_SQL["lock"], _in_order(ids, org))
        return {letter.id: letter for letter in read_rows(Locked, rows)}

    async def standings(self, session: Session, ids: Sequence[str], org: str) -> list[LetterRunState]:
        rows = await session.fetch_many(_SQL["standing"], _in_order(ids, org))
        return [LetterRunState._make(row) for row in rows]

    async def close_if_unattended(self, session: Session, ids: Sequence[str], closing: LetterClosing) -> int:
        """Close the dead letters that are OPEN or EXHAUSTED; return how many were closed."""
        rows = [ClosedLetter(id=letter_id, **closing._asdict()) for letter_id in sorted(ids)]
        return len(await session.fetch_many(_SQL["close"], rows))

    async def reopen_if_closed(self, session: Session, ids: Sequence[str], org: str) -> int:
        return len(await session.fetch_many(_SQL["reopen"], _in_order(ids, org)))

    async def assign(self, session: Session, ids: Sequence[str], org: str, assignee: str | None) -> None:
        # `updated_at` stays: it is the time when the failure or its state changed, and plans compare it.
        await session.fetch_many(
            _SQL["assign"], [LetterAssignment(letter_id, org, assignee) for letter_id in sorted(ids)]
        )

    async def tag(self, session: Session, rows: Sequence[LetterTags]) -> None:
        await session.fetch_many(_SQL["tag"], sorted(rows, key=lambda row: row.id))

    async def note(
        self, session: Session, letter_id: str, org: str, note_id: str, author: str, body: str
    ) -> Note:
        parameters = {"id": letter_id, "org": org, "note_id": note_id, "author": author, "body": body}
        rows = await session.fetch(_SQL["note"], parameters)
        if not rows:
            raise NotFoundError(f"found no dead letter {letter_id!r}")
        return Note._make(rows[0])

    async def notes(self, letter_id: str, org: str) -> list[Note]:
        parameters = {"id": letter_id, "org": org, "most": MAX_NOTES}
        return [Note._make(row) for row in await self._session.fetch(_SQL["notes"], parameters)]

    async def link(self, session: Session, letter_id: str, depends_on: str, org: str) -> bool:
        """Add a dependency; False if it existed already."""
        return bool(await session.fetch(_SQL["link"], _link(letter_id, depends_on, org)))

    async def unlink(self, session: Session, letter_id: str, depends_on: str, org: str) -> bool:
        return bool(await session.fetch(_SQL["unlink"], _link(letter_id, depends_on, org)))

    async def depends(self, session: Session, letter_id: str, depends_on: str, org: str) -> bool:
        """Return whether a dead letter depends on another, directly or through others."""
        return bool(await session.fetch(_SQL["depends"], _link(letter_id, depends_on, org)))

    async def dependencies(self, letter_id: str, org: str) -> list[DeadLetterLine]:
        """Return the dead letters that this one waits for."""
        rows = await self._session.fetch(_SQL["dependencies"], {"id": letter_id, "org": org})
        return read_letters(DeadLetterLine, rows)

    async def by_state(self) -> dict[str, int]:
        """Count the dead letters of all orgs by state."""
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["by_state"], {})}

    async def figures(self, org: str, queue: str | None = None) -> LetterFigures:
        """Read exact counters; no dead letter is read."""
        parameters = {"org": org, "queue": queue}
        counts = [tuple(row) for row in await self._session.fetch(_SQL["counts"], parameters)]
        lifetime = {row[0]: row[1] for row in await self._session.fetch(_SQL["figures"], parameters)}
        live = [row for row in counts if row[0] in LIVE]
        return LetterFigures(_sums(counts, 0), _sums(live, 1), _sums(live, 2), LifetimeStats(**lifetime))


def _in_order(ids: Sequence[str], org: str) -> list[LetterKey]:
    """Sort the keys: all transactions lock dead letters in the same order, which prevents deadlocks."""
    return [LetterKey(letter_id, org) for letter_id in sorted(set(ids))]


def _link(letter_id: str, depends_on: str, org: str) -> dict[str, Any]:
    return {"id": letter_id, "depends_on": depends_on, "org": org}


def _sums(rows: Sequence[Sequence[Any]], place: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[place]] = sums.get(row[place], 0) + row[3]
    return sums
