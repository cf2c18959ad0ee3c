"""Entering a failed run among the dead letters on request: what was refused is not lost (M5, M6)."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import Evidence
from redrive.engine.outcome import dead_letter_row
from redrive.engine.work import Work
from redrive.errors import InvalidValueError, QueueFullError, ReplayRefusedError
from redrive.failures.replays import Kit
from redrive.model.attempt import AttemptRecord
from redrive.model.caller import Caller
from redrive.model.claim import Claim
from redrive.model.dead_letter import LIVE
from redrive.model.decision import Explanation, Reason
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.run import Run
from redrive.policy.fingerprint import Fingerprint, fingerprint
from redrive.policy.strategy import enters
from redrive.store.database import Session
from redrive.store.dead_letter_writer import TOO_MANY, RejectedLetter
from redrive.store.record import UNBURIED, DeadLetterRow, Recorded
from redrive.store.runs import RunEvent


class Entry:
    """On behalf of one caller."""

    def __init__(self, kit: Kit, caller: Caller) -> None:
        self._kit = kit
        self._caller = caller

    async def enter(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has no live one, out of what the run has kept; its id."""
        store, org = self._kit.store, self._caller.org
        run = await store.runs.get(run_id, org)
        await self._kit.definitions.get(run.definition)  # known from now on; not to be read in a transaction
        attempts = await store.runs.attempts(run_id, org)
        events = await store.runs.events(run_id, org)
        live = [each for each in await store.runs.dead_letters(run_id, org) if each.state in LIVE]
        if live:
            return live[-1].id
        try:
            recorded = await self._enter(run, attempts, events)
        except QueueFullError:  # what was counted with it is rolled back
            await store.letter_writer.count_refused(org, "")
            raise
        if recorded.group_change is not None:
            self._kit.event_bus.emit(group_changed(recorded.group_change))
        return str(recorded.letter_id)

    async def _enter(
        self, run: Run, attempts: Sequence[AttemptRecord], events: Sequence[RunEvent]
    ) -> Recorded:
        store, run_id, org = self._kit.store, run.id, run.org
        async with store.database.transaction() as session:
            claim = await store.leases.failed(session, run_id, org)
            if claim is None:
                raise ReplayRefusedError(f"the run {run_id} is {run.state}; only what has failed is kept")
            last = (claim.step_index, claim.attempt)
            own = [each for each in attempts if (each.step_index, each.number) == last]
            if not own:
                raise ReplayRefusedError(f"the run {run_id} was changed in this moment; look at it again")
            told = [RejectedLetter.read(each.detail) for each in events if each.kind == UNBURIED]
            return await self._bury(session, self._row(claim, own[-1], told[-1] if told else None))

    async def _bury(self, session: Session, row: DeadLetterRow) -> Recorded:
        store = self._kit.store
        if await store.letter_writer.refused(session, [row]):
            most = store.letter_writer.max_size or 0
            raise QueueFullError(f"the run {row.run_id} was {TOO_MANY}", max_size=most)
        return await store.records.add_letter(session, row, self._caller.name)

    def _row(self, claim: Claim, attempt: AttemptRecord, told: RejectedLetter | None) -> DeadLetterRow:
        kit = self._kit
        definition = kit.definitions.known(claim.definition)
        if definition is None:
            raise InvalidValueError(f"the definition of the run {claim.id} is not known any more; try again")
        task = kit.registry.tasks.get(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, kit.encryption)
        failure = _failure(attempt, told)
        admission = enters(kit.letter_policy.strategy, failure.category, requested=True)
        if not admission:
            raise ReplayRefusedError(f"the run {claim.id} was not kept: {admission.reason}")
        evidence = Evidence(failure, attempt.stack or "", _mark(attempt, told, work.step.name))
        row = dead_letter_row(
            work, evidence, Explanation(Reason.FINAL_ERROR), kit.ids.new(), kit.letter_policy
        )
        return row._replace(reason=attempt.reason, explanation=attempt.explanation)


def _failure(attempt: AttemptRecord, told: RejectedLetter | None) -> Failure:
    category = attempt.category if attempt.category in list(Category) else Category.UNKNOWN
    error_class = attempt.error_class if attempt.error_class in list(ErrorClass) else ErrorClass.FINAL
    seen = told is None or bool(told.may_have_executed)
    return Failure(
        Category(category or Category.UNKNOWN),
        ErrorClass(error_class or ErrorClass.FINAL),
        "",
        attempt.error_type or "",
        attempt.message or "",
        attempt.public_code or "",
        attempt.public_message or "",
        http_status=attempt.http_status,
        delivery=Delivery.MAYBE_SEEN if seen else Delivery.NEVER_SEEN,
    )


def _mark(attempt: AttemptRecord, told: RejectedLetter | None, step: str) -> Fingerprint:
    if told is not None:
        return Fingerprint(told.fingerprint, told.fingerprint_reason, told.title)
    return fingerprint(
        error_type=attempt.error_type or "",
        step=step,
        status=attempt.http_status,
        message=attempt.message or "",
    )
