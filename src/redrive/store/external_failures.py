"""Failed tasks of other systems, stored as runs that have already failed.

A failed task is claimed under a lease, like a run by a worker, and its failure is recorded in the same
transaction, like any other. It therefore has everything that a dead letter of a run has.
"""

from __future__ import annotations

from typing import NamedTuple

from redrive.errors import QueueFullError
from redrive.model.claim import Claim
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failed_task import FailedTaskRow, NewFailedTask
from redrive.store.database import Session
from redrive.store.limits import Limits
from redrive.store.rows import read_row
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow

_SQL = statements("external_failures", Claim, WorkRow)


class TakenTask(NamedTuple):
    """`letter_id` is the live dead letter of the task, if any. `claim` is None while it is being replayed."""

    claim: Claim | None
    letter_id: str | None


class ExternalFailures:
    def __init__(self, session: Session, limits: Limits) -> None:
        self._session = session
        self._limits = limits

    async def take(self, session: Session, new: NewFailedTask, max_size: int) -> TakenTask:
        """Claim the run of a failed task: the run of its live dead letter, or a new run."""
        await self._lock_queue(session, new.org, new.queue, max_size)
        scope = {"org": new.org, "key": new.key}
        for [run_id] in await session.fetch(_SQL["lock_known"], scope):
            known = {**new._asdict(), "run_id": run_id}
            letters = await session.fetch(_SQL["live_letter"], known)
            if letters:
                return TakenTask(await self._again(session, known), letters[0][0])
            await session.fetch(_SQL["give_up_key"], known)
        await self._require_room(session, new, max_size)
        [row] = await session.fetch(_SQL["insert"], new._asdict())
        return TakenTask(read_row(Claim, row), None)

    async def find(self, org: str, key: str) -> FailedTaskRow | None:
        rows = await self._session.fetch(_SQL["find"], {"org": org, "key": key})
        return FailedTaskRow._make(rows[0]) if rows else None

    async def letter_of(self, session: Session, org: str, key: str) -> str | None:
        """Return the newest dead letter of a task."""
        rows = await session.fetch(_SQL["newest_letter"], {"org": org, "key": key})
        return str(rows[0][0]) if rows else None

    async def page(self, org: str, queue: str, state: str | None, most: int) -> list[FailedTaskRow]:
        """List failed tasks, oldest first. They are read per state: the index orders by state, then time."""
        found: list[FailedTaskRow] = []
        for letter_state in DeadLetterState if state is None else [state]:
            parameters = {"org": org, "queue": queue, "state": str(letter_state), "most": most}
            found += map(FailedTaskRow._make, await self._session.fetch(_SQL["page"], parameters))
        return sorted(found, key=lambda row: (row.created_at, row.letter_id))[:most]

    async def clear(self, session: Session, org: str, queue: str, max_size: int) -> int:
        """Remove all dead letters of the queue with their runs, except those being replayed."""
        await self._lock_queue(session, org, queue, max_size)
        scope = {"org": org, "queue": queue}
        for name in _CLEARING:
            await session.fetch(_SQL[name], scope)
        return len(await session.fetch(_SQL["clear_letters"], scope))

    async def _again(self, session: Session, known: dict[str, object]) -> Claim | None:
        rows = await session.fetch(_SQL["take_again"], known)
        return read_row(Claim, rows[0]) if rows else None

    async def _lock_queue(self, session: Session, org: str, queue: str, max_size: int) -> None:
        """Keep two transactions from taking the same last place, or creating two runs for one task."""
        await self._limits.lock_limits(session, {f"dead letters of {org} in {queue}": max_size})

    async def _require_room(self, session: Session, new: NewFailedTask, max_size: int) -> None:
        [[live]] = await session.fetch(_SQL["live"], {"org": new.org, "queue": new.queue})
        if int(live or 0) >= max_size:
            raise QueueFullError(
                f"the queue is full: it holds {int(live):,} dead letters, and max_size is {max_size:,}. The "
                f"task {new.correlation_id!r} was not stored. Retry or archive some, or raise max_size",
                max_size=max_size,
            )


_CLEARING = (
    "lock_removable",
    "clear_runs",  # first: the statements below remove rows whose run is gone
    "count_gone",
    "clear_notes",
    "clear_dependencies",
    "clear_attempts",
    "clear_steps",
    "clear_events",
    "clear_replays",
)
