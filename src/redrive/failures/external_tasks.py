"""Failed tasks of other systems, in stand-alone queues: stored as runs that have just failed here.

Only a stand-alone queue can be cleared. A failed run of this application is part of its history: it is
closed, archived and removed by retention, but not by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.definition import Definition
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import Evidence
from redrive.engine.ids import Ids
from redrive.engine.recording import AttemptVerdict, failure_record
from redrive.engine.work import Work
from redrive.errors import DriftError, InvalidValueError, NotFoundError, QueueFullError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF, Caller
from redrive.model.dead_letter import DeadLetterState
from redrive.model.decision import Bury, Explanation, Reason
from redrive.model.event import StepDied
from redrive.model.failed_task import FailedTaskRow, NewFailedTask
from redrive.model.failure import Failure
from redrive.model.run import RunState
from redrive.model.step import AttemptOutcome
from redrive.store.database import Session
from redrive.store.external_failures import ExternalFailures
from redrive.store.record import Record, Recorded
from redrive.store.runs import DefinitionRow
from redrive.store.store import Store

PREFIX = "dlq:"
"""Prefix of the names of stand-alone queues."""
DEFAULT_MAX_SIZE = 10_000


class TaskReport(NamedTuple):
    """A failed task to store. `after` maps the tasks that must succeed before it to their keys."""

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

    async def keep(self, report: TaskReport, max_size: int) -> None:
        """Store a failed task. While its letter is live, the same task updates that letter."""
        definition = report.definition
        row = DefinitionRow(definition.digest, definition.workflow, definition.body)
        await self._store.runs.define([row])
        try:
            await self._keep(report, max_size)
        except QueueFullError:  # counted here, because the transaction was rolled back
            await self._store.letter_writer.count_refused(report.new.org, report.new.queue)
            raise

    async def find(self, org: str, key: str) -> FailedTaskRow | None:
        """The task with this key, by its newest dead letter."""
        return await self._failures.find(org, key)

    async def page(
        self, org: str, queue: str, state: DeadLetterState | None, most: int
    ) -> list[FailedTaskRow]:
        """Up to `most` tasks of a queue, the oldest first."""
        return await self._failures.page(org, queue, state, most)

    async def _keep(self, report: TaskReport, max_size: int) -> None:
        async with self._store.database.transaction() as session:
            taken = await self._failures.take(session, report.new, max_size)
            letter_id = taken.letter_id or self._ids.new()
            linked = await self._link(session, letter_id, report)
            if taken.claim is None:
                await self._store.audit.append(session, linked)
                return
            work = Work(taken.claim, report.definition, None, self._encryption)
            record = self._record(work, letter_id, report.evidence)
            recorded = (await self._store.records.record_within(session, [record]))[work.claim.id]
            await self._store.audit.append(session, linked)
        self._emit(work, recorded, report.evidence)

    def _record(self, work: Work, letter_id: str, evidence: Evidence) -> Record:
        decision = Bury(_why(work, evidence.failure))
        return failure_record(
            work,
            AttemptVerdict(evidence, decision, AttemptOutcome.FAILED),
            now=self._clock.now(),
            letter_id=letter_id,
            letter_policy=self._letter_policy,
        )

    async def _link(self, session: Session, letter_id: str, report: TaskReport) -> list[NewEntry]:
        """Make the letter wait for those in `after`; return the audit entry."""
        others: list[str] = []
        org, letters = report.new.org, self._store.dead_letters
        for task_id, key in report.after.items():
            other = await self._failures.letter_of(session, org, key)
            if other is None:
                raise NotFoundError(f"there is no task {task_id!r} in the queue that it could wait for")
            if other == letter_id or await letters.depends(session, other, letter_id, org):
                raise InvalidValueError(f"it cannot wait for {task_id!r}, which waits for it")
            await letters.link(session, letter_id, other, org)
            others.append(other)
        detail = {"depends_on": others}
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
            if others
            else []
        )

    def _emit(self, work: Work, recorded: Recorded, evidence: Evidence) -> None:
        if recorded.group_change is not None:
            self._event_bus.emit(group_changed(recorded.group_change))
        failure, letter_id = evidence.failure, recorded.letter_id
        why, where = _why(work, failure), evidence.where
        self._event_bus.emit(
            StepDied(
                ref=work.ref,
                seconds=0.0,
                failure=failure,
                explanation=why,
                state=RunState.DLQ_PENDING,
                dlq_id=letter_id,
                where=where,
            ),
        )


def _why(work: Work, failure: Failure) -> Explanation:
    attempts = work.policy.max_attempts
    return Explanation(
        reason=Reason.REPORTED,
        rule=failure.rule,
        category=str(failure.category),
        failures=1,
        max_attempts=attempts,
    )


def is_stand_alone(queue: str) -> bool:
    return queue.startswith(PREFIX)


async def clear_queue(
    store: Store, caller: Caller, queue: str, max_size: int | None, *, expect: int | None = None
) -> int:
    """Remove everything from a stand-alone queue but what is being executed; how many tasks were removed.

    DriftError, and nothing is removed, unless there are as many as `expect`.
    """
    if not is_stand_alone(queue) or not queue.isprintable():
        raise InvalidValueError(
            f"only stand-alone dead-letter queues can be cleared, whose names begin with {PREFIX!r}, got "
            f"{queue[:100]!r}; resolve, ignore or archive other dead letters instead"
        )
    org, name = caller
    failures = ExternalFailures(store.database, store.limits)
    async with store.database.transaction() as session:
        removed = await failures.clear(session, org, queue, max_size or DEFAULT_MAX_SIZE)
        if expect is not None and removed != expect:
            raise DriftError(
                f"{removed:,} dead letters would be removed, {expect:,} were expected; nothing was removed. "
                f"Look at them again, then say the new number",
                number=removed,
            )
        entry = NewEntry(
            org=org, actor=name, action=Action.QUEUE_CLEARED, subjects=(queue,), detail={"removed": removed}
        )
        await store.audit.append(session, [entry])
    return removed
