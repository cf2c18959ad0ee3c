"""Failed runs as a person works with them: retried, or entered among the dead letters.

A run without a dead letter is one that a strategy left out, or that a full queue did not take.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence

from redrive.engine.definition import Definition
from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import Evidence
from redrive.engine.task import AnyTask
from redrive.engine.work import Work
from redrive.errors import InvalidValueError, QueueFullError, ReplayRefusedError, StoreUnavailableError
from redrive.failures.parts import FailureParts
from redrive.failures.replays import MAX_TRIES, Replays, input_of
from redrive.model.audit import Action, NewEntry
from redrive.model.claim import Claim
from redrive.model.dead_letter import LIVE
from redrive.model.decision import Explanation, Reason
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.replay import Mode
from redrive.model.run import Run, RunEvent, RunState
from redrive.model.step import AttemptRecord
from redrive.policy.codec import decode
from redrive.policy.fingerprint import Fingerprint, fingerprint
from redrive.policy.triage import enters
from redrive.policy.user_text import clean_reason
from redrive.store.database import Session
from redrive.store.dead_letter_writer import TOO_MANY, RejectedLetter
from redrive.store.record import UNBURIED, NewDeadLetter, Recorded
from redrive.store.replays import NewReplay

_FAILED = (RunState.FAILED, RunState.DLQ_PENDING, RunState.PARTIAL)


class FailedRuns:
    """The failed runs of the caller's organization."""

    def __init__(self, parts: FailureParts, replays: Replays) -> None:
        self._parts = parts
        self._store = parts.store
        self._replays = replays
        self._caller = parts.caller

    # Retrying

    async def replay(self, run_id: str, reason: str = "") -> None:
        """Queue a failed run again where it stopped, with a new budget; a partial run behind that step.

        ReplayRefusedError when the `source` of its task says that what it works on no longer exists.
        """
        run = await self._store.runs.get(run_id, self._caller.org)
        if run.state not in _FAILED:
            raise ReplayRefusedError(f"the run {run_id} is {run.state}; only one that has failed is retried")
        definition = await self._parts.definitions.get(run.definition)
        index = run.step_index + (1 if run.state == RunState.PARTIAL else 0)
        step_input = await input_of(self._store, run, index)
        await self._check_source(run, definition, index, step_input)
        live = await self._live_letters(run_id)
        if live:
            await self._replays.start(live[-1], Mode.FROM_STEP, reason=reason)
            return
        new = NewReplay(
            id=self._parts.ids.new(),
            org=self._caller.org,
            letter_id="",
            run_id=run.id,
            step_index=run.step_index,
            from_step=index,
            mode=Mode.FROM_STEP,
            automatic=False,
            requested_by=self._caller.name,
            reason=clean_reason(reason, self._parts.redactor),
            step_input=step_input,
            queue=definition.steps[index].queue,
        )
        await self._resume(new)

    async def _resume(self, new: NewReplay) -> None:
        async def resume() -> str | None:
            async with self._store.database.transaction() as session:
                queue = await self._store.replays.resume(session, new)
                if queue is not None:
                    detail = {"reason": new.reason, "from_step": new.from_step}
                    entry = NewEntry(*self._caller, Action.RUN_RETRIED, (new.run_id,), detail)
                    await self._store.audit.append(session, [entry])
                return queue

        queue = await self._parts.retrier.run("retry", resume, errors=StoreUnavailableError, tries=MAX_TRIES)
        if queue is not None:
            await self._store.hint([queue])
        elif not await self._was_resumed(new):
            raise ReplayRefusedError(f"the run {new.run_id} was changed in this moment; look at it again")

    async def _was_resumed(self, new: NewReplay) -> bool:
        """True when an earlier try resumed the run, and only its answer was lost."""
        replays = await self._store.replays.of_run(new.run_id, self._caller.org)
        return any(replay.id == new.id for replay in replays)

    async def _check_source(
        self, run: Run, definition: Definition, index: int, step_input: str | None
    ) -> None:
        task = self._parts.registry.tasks.get(definition.steps[index].task)
        if task is None or task.source is None:
            return
        text = self._parts.encryption.decrypt(step_input or run.step_input or run.input)
        if not await _source_exists(task, decode(text)):
            raise ReplayRefusedError(
                f"the run {run.id} cannot be retried: what {task.name!r} works on does not exist any more"
            )

    async def _live_letters(self, run_id: str) -> list[str]:
        letters = await self._store.dead_letters.of_run(run_id, self._caller.org)
        return [letter.id for letter in letters if letter.state in LIVE]

    # Keeping them as dead letters

    async def add(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has no live one; its id."""
        store, org = self._store, self._caller.org
        run = await store.runs.get(run_id, org)
        # Cached from now on: it is not to be read in a transaction.
        await self._parts.definitions.get(run.definition)
        attempts = await store.runs.attempts(run_id, org)
        events = await store.runs.events(run_id, org)
        live = await self._live_letters(run_id)
        if live:
            return live[-1]
        try:
            recorded = await self._add(run, attempts, events)
        except QueueFullError:  # counted here, because the transaction was rolled back
            await store.letter_writer.count_refused(org, "")
            raise
        if recorded.group_change is not None:
            self._parts.event_bus.emit(group_changed(recorded.group_change))
        return str(recorded.letter_id)

    async def _add(self, run: Run, attempts: Sequence[AttemptRecord], events: Sequence[RunEvent]) -> Recorded:
        async with self._store.database.transaction() as session:
            claim = await self._store.leases.failed(session, run.id, run.org)
            if claim is None:
                raise ReplayRefusedError(f"the run {run.id} is {run.state}; only what has failed is kept")
            last = (claim.step_index, claim.attempt)
            own = [attempt for attempt in attempts if (attempt.step_index, attempt.number) == last]
            if not own:
                raise ReplayRefusedError(f"the run {run.id} was changed in this moment; look at it again")
            rejected = [RejectedLetter.read(event.detail) for event in events if event.kind == UNBURIED]
            return await self._bury(session, self._row(claim, own[-1], rejected[-1] if rejected else None))

    async def _bury(self, session: Session, row: NewDeadLetter) -> Recorded:
        if await self._store.letter_writer.refused(session, [row]):
            most = self._store.letter_writer.max_size or 0
            raise QueueFullError(f"the run {row.run_id} was {TOO_MANY}", max_size=most)
        return await self._store.records.add_letter(session, row, self._caller.name)

    def _row(self, claim: Claim, attempt: AttemptRecord, rejected: RejectedLetter | None) -> NewDeadLetter:
        definition = self._parts.definitions.known(claim.definition)
        if definition is None:
            raise InvalidValueError(f"the definition of the run {claim.id} is not known any more; try again")
        task = self._parts.registry.tasks.get(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, self._parts.encryption)
        failure = _failure(attempt, rejected)
        admission = enters(self._parts.letter_policy.strategy, failure.category, requested=True)
        if not admission:
            raise ReplayRefusedError(f"the run {claim.id} was not kept: {admission.reason}")
        evidence = Evidence(failure, attempt.stack or "", _fingerprint(attempt, rejected, work.step.name))
        why = Explanation(Reason.FINAL_ERROR)
        row = self._parts.letter_policy.letter(work, evidence, why, self._parts.ids.new())
        return row.replace(reason=attempt.reason, explanation=attempt.explanation)


async def _source_exists(task: AnyTask, payload: object) -> bool:
    """Ask the `source` of a task; a sync function on a thread, because it may wait for a disk or a server."""
    source = task.source
    if source is None:
        return True
    try:
        if inspect.iscoroutinefunction(source):
            return bool(await source(payload))
        answer = await asyncio.to_thread(source, payload)
        return bool(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:
        raise ReplayRefusedError(
            f"whether what {task.name!r} works on still exists is not known: its source check failed with "
            f"{type(error).__name__}"
        ) from error


def _failure(attempt: AttemptRecord, rejected: RejectedLetter | None) -> Failure:
    category = attempt.category if attempt.category in list(Category) else Category.UNKNOWN
    error_class = attempt.error_class if attempt.error_class in list(ErrorClass) else ErrorClass.FINAL
    seen = rejected is None or bool(rejected.may_have_executed)
    return Failure(
        Category(category or Category.UNKNOWN),
        ErrorClass(error_class or ErrorClass.FINAL),
        rule="",
        error_type=attempt.error_type or "",
        message=attempt.message or "",
        public_code=attempt.public_code or "",
        public_message=attempt.public_message or "",
        http_status=attempt.http_status,
        delivery=Delivery.MAYBE_SEEN if seen else Delivery.NEVER_SEEN,
    )


def _fingerprint(attempt: AttemptRecord, rejected: RejectedLetter | None, step: str) -> Fingerprint:
    if rejected is not None:
        return Fingerprint(rejected.fingerprint, rejected.fingerprint_reason, rejected.title)
    return fingerprint(
        error_type=attempt.error_type or "",
        step=step,
        status=attempt.http_status,
        message=attempt.message or "",
    )
