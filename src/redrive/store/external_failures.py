"""Failed tasks of other systems, stored as runs that have already failed.

A failed task is claimed under a lease, like a run by a worker, and its failure is recorded in the same
transaction, like any other. It therefore has everything that a dead letter of a run has.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from redrive.errors import ConflictError, QueueFullError
from redrive.model.claim import Claim
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failed_task import FailedTaskRow, NewFailedTask
from redrive.store.database import Session
from redrive.store.limits import Limits
from redrive.store.rows import read_row
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow

_SQL = statements("external_failures", Claim, WorkRow)


class EnqueuedTask(NamedTuple):
    """`letter_id` is the live dead letter of the task, if any. `claim` is None while it is being replayed.

    task_id  the id under which the task is stored
    """

    claim: Claim | None
    letter_id: str | None
    task_id: str


class KnownTask(NamedTuple):
    """The run that has the key of a task. `letter_id` is its dead letter if it is open or being replayed."""

    run_id: str
    key: str
    request_hash: str | None
    letter_id: str | None


class ExternalFailures:
    def __init__(self, session: Session, limits: Limits) -> None:
        self._session = session
        self._limits = limits

    async def take(
        self, session: Session, new: NewFailedTask, max_size: int, *, separately: bool = False
    ) -> EnqueuedTask:
        """Claim the run of a failed task: the run of its live dead letter, or a new run.

        If another task has a live dead letter under the same id, raise ConflictError; with `separately`,
        store the task under the id <id>~2, ~3, …
        """
        await self._lock_queue(session, new.org, new.queue, max_size)
        known = await self._known(session, "lock_known", new)
        if separately and any(_is_other(task, new) for task in known.values()):
            known |= await self._known(session, "lock_numbered", new)
            new = _separate(known, new)
        task = known.get(new.key)
        if task is None:
            return await self._insert(session, new, max_size)
        if task.letter_id is None:
            await session.fetch(_SQL["give_up_key"], {"run_id": task.run_id})
            return await self._insert(session, new, max_size)
        if _is_other(task, new):
            raise _conflict(task, new)
        return EnqueuedTask(await self._again(session, task, new), task.letter_id, new.correlation_id)

    async def insert(self, session: Session, new: NewFailedTask) -> Claim:
        """Store a new run of a failed task and claim it. The caller makes sure that there is none yet."""
        [row] = await session.fetch(_SQL["insert"], new._asdict())
        return read_row(Claim, row)

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

    async def _known(self, session: Session, statement: str, new: NewFailedTask) -> dict[str, KnownTask]:
        scope = {"org": new.org, "key": new.key, "numbered_key": new.numbered_key}
        rows = await session.fetch(_SQL[statement], scope)
        return {task.key: task for task in map(KnownTask._make, rows)}

    async def _insert(self, session: Session, new: NewFailedTask, max_size: int) -> EnqueuedTask:
        await self._require_room(session, new, max_size)
        return EnqueuedTask(await self.insert(session, new), None, new.correlation_id)

    async def _again(self, session: Session, task: KnownTask, new: NewFailedTask) -> Claim | None:
        rows = await session.fetch(_SQL["take_again"], {**new._asdict(), "run_id": task.run_id})
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


def _is_other(task: KnownTask, new: NewFailedTask) -> bool:
    """Return whether a live task under the same id has another payload, which must not be overwritten."""
    return task.letter_id is not None and task.request_hash != new.request_hash


def _separate(known: Mapping[str, KnownTask], new: NewFailedTask) -> NewFailedTask:
    """Return the task under the key of its own live letter, or else under the first number that is free."""
    live = {key: task for key, task in known.items() if task.letter_id is not None}
    same = sorted(key for key, task in live.items() if not _is_other(task, new))
    numbered = (f"{new.numbered_key}{number}" for number in count(2))
    return new.under(same[0] if same else next(key for key in numbered if key not in live))


def _conflict(task: KnownTask, new: NewFailedTask) -> ConflictError:
    return ConflictError(
        f"the task {new.correlation_id!r} has failed before with another payload, and that task is not done. "
        f"Nothing was stored. Use another id for this task, or finish the other task first",
        run_id=task.run_id,
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
