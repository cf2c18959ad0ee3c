"""Failed runs: retry them, or add them to the dead letters.

A failed run has no dead letter if the strategy of its dead-letter queue excludes the failure.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.definition import Definition
from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import Evidence
from redrive.engine.task import AnyTask
from redrive.engine.work import Work
from redrive.errors import InvalidValueError, ReplayRefusedError, StoreUnavailableError
from redrive.failures.parts import FailureParts
from redrive.failures.replays import MAX_TRIES, Replays, input_of
from redrive.model.audit import Action, NewEntry
from redrive.model.claim import Claim
from redrive.model.dead_letter import LIVE, DeadLetter
from redrive.model.fact import read_fact
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.replay import Mode
from redrive.model.run import Run, RunEvent, RunState
from redrive.model.step import AttemptRecord
from redrive.policy.codec import decode
from redrive.policy.fingerprint import Fingerprint, fingerprint
from redrive.policy.triage import rejection
from redrive.policy.user_text import clean_reason
from redrive.store.dead_letter_writer import RejectedLetter
from redrive.store.record import REJECTION_EVENT, NewDeadLetter, Recorded
from redrive.store.replays import NewReplay
from redrive.words.fact import text_of
from redrive.words.state import status

SOURCE_SECONDS = 2.0
"""How long a page waits for the source check of a task."""

_FAILED = (RunState.FAILED, RunState.DLQ_PENDING, RunState.PARTIAL)


class _NextStep(NamedTuple):
    """The step where a failed run continues."""

    step_index: int
    input: str | None
    queue: str


class FailedRuns:
    """Retries and stores the failed runs of the caller's organization."""

    def __init__(self, parts: FailureParts, replays: Replays) -> None:
        self._parts = parts
        self._store = parts.store
        self._replays = replays
        self._caller = parts.caller

    # Retrying

    async def replay(self, run_id: str, reason: str = "") -> None:
        """Queue a failed run again at the step where it stopped, with a new retry budget.

        A PARTIAL run continues with the next step. Raises ReplayRefusedError if the `source` check of the
        task returns False.
        """
        run, step = await self._retriable(run_id)
        live = await self._live_letters(run_id)
        if live:
            await self._replays.start(live[0].id, Mode.FROM_STEP, reason=reason)
            return
        new = NewReplay(
            id=self._parts.ids.new(),
            org=self._caller.org,
            letter_id="",
            run_id=run.id,
            step_index=run.step_index,
            from_step=step.step_index,
            mode=Mode.FROM_STEP,
            automatic=False,
            requested_by=self._caller.name,
            reason=clean_reason(reason, self._parts.redactor),
            step_input=step.input,
            queue=step.queue,
        )
        await self._resume(new)

    async def obstacle(self, run_id: str) -> str | None:
        """Return why a run can't be retried now, or None. A slow source check says nothing yet."""
        try:
            async with asyncio.timeout(SOURCE_SECONDS):
                await self._retriable(run_id)
        except TimeoutError:
            return None
        except ReplayRefusedError as error:
            return str(error)
        return None

    async def _retriable(self, run_id: str) -> tuple[Run, _NextStep]:
        """Return a failed run and the step where it continues. Raise ReplayRefusedError if it can't."""
        run = await self._store.runs.get(run_id, self._caller.org)
        if run.state not in _FAILED:
            raise ReplayRefusedError(
                f"the run {run_id} has the status {status(run.state)!r}; only a failed run can be retried"
            )
        definition = await self._parts.definitions.get(run.definition)
        index = run.step_index + (1 if run.state == RunState.PARTIAL else 0)
        step_input = await input_of(self._store, run, index)
        await self._check_source(run, definition, index, step_input)
        return run, _NextStep(index, step_input, definition.steps[index].queue)

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
            raise ReplayRefusedError(_changed(new.run_id))

    async def _was_resumed(self, new: NewReplay) -> bool:
        """Return True if an earlier try resumed the run and only its response was lost."""
        replays = await self._store.replays.of_run(new.run_id, self._caller.org)
        return any(replay.id == new.id for replay in replays)

    async def _check_source(
        self, run: Run, definition: Definition, index: int, step_input: str | None
    ) -> None:
        task = self._parts.registry.task(definition.steps[index].task)
        if task is None or task.source is None:
            return
        text = self._parts.encryption.decrypt(step_input or run.step_input or run.input)
        if not await _source_exists(task, decode(text)):
            raise ReplayRefusedError(
                f"the run {run.id} can't be retried: the source that {task.name!r} processes no longer exists"
            )

    async def _live_letters(self, run_id: str) -> list[DeadLetter]:
        """Return the live dead letters of a run, that of the earliest step first."""
        letters = await self._store.dead_letters.of_run(run_id, self._caller.org)
        live = [letter for letter in letters if letter.state in LIVE]
        return sorted(live, key=lambda letter: letter.step_index)

    # Adding dead letters

    async def add(self, run_id: str) -> str:
        """Write a dead letter for a failed run and return its id. Return the live letter if one exists."""
        store, org = self._store, self._caller.org
        run = await store.runs.get(run_id, org)
        # Load the definition into the cache: it must not be read within the transaction.
        await self._parts.definitions.get(run.definition)
        attempts = await store.runs.attempts(run_id, org)
        events = await store.runs.events(run_id, org)
        await self._parts.strategies.refresh()
        live = await self._live_letters(run_id)
        if live and live[0].step_index == run.step_index:
            return live[0].id
        recorded = await self._add(run, attempts, events)
        if recorded.group_change is not None:
            self._parts.event_bus.emit(group_changed(recorded.group_change))
        return str(recorded.letter_id)

    async def _add(self, run: Run, attempts: Sequence[AttemptRecord], events: Sequence[RunEvent]) -> Recorded:
        async with self._store.database.transaction() as session:
            claim = await self._store.leases.failed(session, run.id, run.org)
            if claim is None:
                raise ReplayRefusedError(
                    f"the run {run.id} has the status {status(run.state)!r}; "
                    f"only a failed run can become a dead letter"
                )
            last = (claim.step_index, claim.attempt)
            own = [attempt for attempt in attempts if (attempt.step_index, attempt.number) == last]
            if not own:
                raise ReplayRefusedError(_changed(run.id))
            rejected = [
                RejectedLetter.read(event.detail) for event in events if event.kind == REJECTION_EVENT
            ]
            row = self._row(claim, own[-1], rejected[-1] if rejected else None)
            return await self._store.records.add_letter(session, row, self._caller.name)

    def _row(self, claim: Claim, attempt: AttemptRecord, rejected: RejectedLetter | None) -> NewDeadLetter:
        definition = self._parts.definitions.known(claim.definition)
        if definition is None:
            raise InvalidValueError(f"the definition of the run {claim.id} is no longer cached; try again")
        task = self._parts.registry.task(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, self._parts.encryption)
        failure = _failure(attempt, rejected)
        strategy = self._parts.strategies.of(claim.org, claim.queue)
        if reason := rejection(strategy, failure.category, requested=True):
            raise ReplayRefusedError(f"the run {claim.id} did not become a dead letter: {text_of(reason)}")
        evidence = Evidence(failure, attempt.stack or "", _fingerprint(attempt, rejected, work.step.name))
        return self._parts.letter_policy.letter(work, evidence, attempt.reason, self._parts.ids.new())


async def _source_exists(task: AnyTask, payload: object) -> bool:
    """Call the `source` check of a task; sync functions run in a thread, because they may block."""
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
            f"the source check of the task {task.name!r} failed with {type(error).__name__}, so the run was "
            f"not retried; fix the check and try again"
        ) from error


def _changed(run_id: str) -> str:
    return f"the run {run_id} was changed at the same time by another caller; read it again"


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
        return Fingerprint(rejected.fingerprint, read_fact(rejected.fingerprint_reason), rejected.title)
    return fingerprint(
        error_type=attempt.error_type or "",
        step=step,
        status=attempt.http_status,
        message=attempt.message or "",
    )
