"""Facts since the failure of a step, for the verdict on its dead letter. Every query is limited."""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import NotFoundError
from redrive.model.dead_letter import DeadLetterState
from redrive.model.decision import Reason, StoredDecision
from redrive.model.failure import Category, ErrorClass
from redrive.model.row import Row
from redrive.model.step import Effect
from redrive.store.database import Session
from redrive.store.rows import read_row
from redrive.store.statement import statements

MAX_COUNT = 1_000


class FailedLetter(Row, frozen=True):
    """The facts about a dead letter that a verdict needs; `now` is when they were read."""

    id: str
    state: DeadLetterState
    workflow: str
    queue: str
    step: str
    category: Category
    error_class: ErrorClass
    error_type: str
    reason: Reason
    decision: StoredDecision
    fingerprint: str
    attempts: int
    created_at: float
    last_failed_at: float | None
    effect: Effect
    may_have_executed: bool
    breaker: str | None
    code_version: str
    redrives: int
    max_redrives: int
    next_redrive_at: float | None
    now: float


_SQL = statements("verdict_facts", FailedLetter)


class EndedReplays(NamedTuple):
    """Finished replays of one failure: of this dead letter (`own`), or of others."""

    own: bool
    state: str
    number: int
    last_ended_at: float | None


class FactFinder:
    def __init__(self, session: Session, org: str) -> None:
        self._session = session
        self._org = org

    async def letter(self, letter_id: str) -> FailedLetter:
        rows = await self._session.fetch(_SQL["letter"], {"id": letter_id, "org": self._org})
        if not rows:
            raise NotFoundError(f"found no dead letter {letter_id!r}")
        return read_row(FailedLetter, rows[0])

    async def successes(self, workflow: str, since: float) -> dict[str, int]:
        """Count runs of the workflow that started and succeeded since then, by code version.

        Only the most recently submitted runs are examined.
        """
        parameters = {"org": self._org, "workflow": workflow, "since": since, "most": MAX_COUNT}
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["successes"], parameters)}

    async def occurrences(self, letter: FailedLetter, since: float) -> int:
        """Count the other dead letters of the same failure since `since`."""
        [row] = await self._session.fetch(_SQL["occurrences"], self._of(letter) | {"since": since})
        return int(row[0])

    async def failing(self, letter: FailedLetter, since: float) -> frozenset[str]:
        """Return the code versions in which the same failure has occurred since `since`."""
        rows = await self._session.fetch(_SQL["failing"], self._of(letter) | {"since": since})
        return frozenset(row[0] for row in rows)

    async def replays(self, letter: FailedLetter) -> list[EndedReplays]:
        rows = await self._session.fetch(_SQL["replays"], self._of(letter))
        return [EndedReplays(row[0] == 1, *row[1:]) for row in rows]

    async def waits_for(self, letter: FailedLetter) -> dict[str, str]:
        """Return the unresolved dead letters that must be resolved before this one, with their states."""
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["waits_for"], self._of(letter))}

    def _of(self, letter: FailedLetter) -> dict[str, str | int | float]:
        return {"org": self._org, "id": letter.id, "fingerprint": letter.fingerprint, "most": MAX_COUNT}
