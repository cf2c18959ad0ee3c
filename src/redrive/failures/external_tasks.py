"""Failed tasks of other systems, in stand-alone queues; each is stored as a failed run with a dead letter.

Only stand-alone queues can be cleared. Failed runs of this application are part of its history: operators
close and archive their dead letters, and retention removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.definition import Definition
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.evidence import Evidence
from redrive.engine.ids import Ids
from redrive.engine.reported_failure import ReportedFailure
from redrive.engine.work import Work
from redrive.errors import DriftError, InvalidValueError, NotFoundError, QueueFullError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF, Caller
from redrive.model.dead_letter import DeadLetterState
from redrive.model.event import TaskStoredSeparately
from redrive.model.failed_task import FailedTaskRow, NewFailedTask
from redrive.store.database import Session
from redrive.store.external_failures import ExternalFailures
from redrive.store.runs import DefinitionRow
from redrive.store.store import Store
from redrive.words.number import plural

PREFIX = "dlq:"
"""The prefix of the name of every stand-alone queue."""
DEFAULT_MAX_SIZE = 10_000


class TaskReport(NamedTuple):
    """A failed task to store. `after` maps the tasks that must succeed first to their keys."""

    new: NewFailedTask
    definition: Definition
    evidence: Evidence
    after: Mapping[str, str]


class ExternalTasks:
    """Stores failed tasks of other systems as dead letters, and finds them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        event_bus: EventBus,
        letter_policy: DeadLetterPolicy,
        encryption: Encryption = NO_ENCRYPTION,
    ) -> None:
        self._store = store
        self._failures = ExternalFailures(store.database, store.limits)
        self._clock = clock
        self._ids = ids
        self._event_bus = event_bus
        self._letter_policy = letter_policy
        self._encryption = encryption

    async def keep(self, report: TaskReport, max_size: int, *, separately: bool = False) -> str:
        """Store a failed task, and return its id. If the task has a live letter, update that letter.

        If another task has a live letter under this id, raise ConflictError, or with `separately` store the
        task under another id.
        """
        definition = report.definition
        row = DefinitionRow(definition.digest, definition.workflow, definition.body)
        await self._store.runs.define([row])
        try:
            task_id = await self._keep(report, max_size, separately=separately)
        except QueueFullError:  # counted here, because the transaction was rolled back
            await self._store.letter_writer.count_refused(report.new.org, report.new.queue)
            raise
        if task_id != report.new.correlation_id:
            new = report.new
            self._event_bus.emit(TaskStoredSeparately(new.org, new.queue, new.correlation_id, task_id))
        return task_id

    async def find(self, org: str, key: str) -> FailedTaskRow | None:
        """The task with this key, as its newest dead letter describes it."""
        return await self._failures.find(org, key)

    async def page(
        self, org: str, queue: str, state: DeadLetterState | None, most: int
    ) -> list[FailedTaskRow]:
        """Up to `most` tasks of a queue, oldest first."""
        return await self._failures.page(org, queue, state, most)

    async def _keep(self, report: TaskReport, max_size: int, *, separately: bool) -> str:
        async with self._store.database.transaction() as session:
            taken = await self._failures.take(session, report.new, max_size, separately=separately)
            letter_id = taken.letter_id or self._ids.new()
            linked = await self._link(session, letter_id, report)
            if taken.claim is None:
                await self._store.audit.append(session, linked)
                return taken.task_id
            work = Work(taken.claim, report.definition, None, self._encryption)
            failure = ReportedFailure(work, report.evidence)
            record = failure.record(letter_id, self._letter_policy, self._clock.now())
            recorded = (await self._store.records.record_within(session, [record]))[work.claim.id]
            await self._store.audit.append(session, linked)
        failure.emit(self._event_bus, recorded)
        return taken.task_id

    async def _link(self, session: Session, letter_id: str, report: TaskReport) -> list[NewEntry]:
        """Link the letter to the tasks in `after`. Return the audit entry, if there is one."""
        linked: list[str] = []
        org, letters = report.new.org, self._store.dead_letters
        for task_id, key in report.after.items():
            other = await self._failures.letter_of(session, org, key)
            if other is None:
                raise NotFoundError(f"the task can't wait for {task_id!r}: the queue has no such task")
            if other == letter_id or await letters.depends(session, other, letter_id, org):
                raise InvalidValueError(f"the task can't wait for {task_id!r}, which already waits for it")
            await letters.link(session, letter_id, other, org)
            linked.append(other)
        detail = {"depends_on": linked}
        return (
            [
                NewEntry(
                    org=org,
                    actor=SELF,
                    action=Action.DEAD_LETTER_LINKED,
                    subjects=(letter_id,),
                    detail=detail,
                )
            ]
            if linked
            else []
        )


def is_stand_alone(queue: str) -> bool:
    return queue.startswith(PREFIX)


async def clear_queue(
    store: Store, caller: Caller, queue: str, max_size: int | None, *, expect: int | None = None
) -> int:
    """Remove all tasks from a stand-alone queue, except those in progress. Return how many were removed.

    Raises DriftError and removes nothing if their number differs from `expect`.
    """
    if not is_stand_alone(queue) or not queue.isprintable():
        raise InvalidValueError(
            f"only stand-alone queues can be cleared, and their names start with {PREFIX!r}; got "
            f"{queue[:100]!r}. Resolve, ignore or archive other dead letters instead"
        )
    org, name = caller
    failures = ExternalFailures(store.database, store.limits)
    async with store.database.transaction() as session:
        removed = await failures.clear(session, org, queue, max_size or DEFAULT_MAX_SIZE)
        if expect is not None and removed != expect:
            raise DriftError(
                f"{plural(removed, 'dead letter')} would be removed, {expect:,} were expected; nothing was "
                f"removed. Check them again, then pass the new number",
                number=removed,
            )
        entry = NewEntry(
            org=org, actor=name, action=Action.QUEUE_CLEARED, subjects=(queue,), detail={"removed": removed}
        )
        await store.audit.append(session, [entry])
    return removed
