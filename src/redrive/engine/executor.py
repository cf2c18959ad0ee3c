"""The executor: run, classify, decide, record, tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from redrive.clock import Clock
from redrive.engine import outcome
from redrive.engine.breakers import Breakers, Report
from redrive.engine.context import Context
from redrive.engine.evidence import Evidence, evidence_of, evidence_without_error
from redrive.engine.ids import Ids
from redrive.engine.invoke import Invoker
from redrive.engine.payload import to_json
from redrive.engine.recorder import Recorder
from redrive.engine.registry import Definitions, Registry
from redrive.engine.task import Task
from redrive.engine.telling import Teller
from redrive.engine.work import Interruption, Work
from redrive.errors import DeferredError, LeaseLostError, StoreError
from redrive.model import event
from redrive.model.attempt import AttemptOutcome
from redrive.model.breaker import CallOutcome
from redrive.model.claim import Claim
from redrive.model.decision import Bury, Decision, Explanation, Reason, Release, Retry
from redrive.model.failure import Category, ErrorClass
from redrive.model.run import RunState
from redrive.model.step import Effect
from redrive.policy.breaker import outcome_of
from redrive.policy.codec import decode, encode
from redrive.policy.redact import Redactor
from redrive.policy.retry import decide
from redrive.store.foreign import ForeignSession, foreign_session
from redrive.store.records import EventRow, Record
from redrive.store.store import Store

UNKNOWN_TASK_DELAY = 10.0
INTERRUPTED_DELAY = 1.0
MOST_LOSSES = 2
"""So many workers may die while executing a step among others; from then on it is executed alone."""
MOST_LONELY_LOSSES = 3

Finished = Callable[[str, str], None]


@dataclass(slots=True)
class Executor:
    store: Store
    clock: Clock
    random: Random
    ids: Ids
    registry: Registry
    definitions: Definitions
    recorder: Recorder
    invoker: Invoker
    breakers: Breakers
    teller: Teller
    redactor: Redactor
    lease_seconds: float
    org_concurrency: int | None
    finished: Finished
    due_in: Callable[[float], None] = lambda seconds: None
    stopping: bool = False

    async def work_of(self, claim: Claim) -> Work:
        definition = await self.definitions.get(claim.definition)
        task = self.registry.tasks.get(definition.steps[claim.step_index].task)
        work = Work(claim, definition, task, {})
        if task is not None:
            work.limits = self._limits(work)
        return work

    async def execute(self, work: Work) -> None:
        """One step after the other, as long as the run can go on under the same lease."""
        following: Work | None = work
        while following is not None:
            following = await self._execute_step(following)

    async def _execute_step(self, work: Work) -> Work | None:
        if work.task is None:
            self._release_unknown(work)
            return None
        context = Context(
            work.claim,
            work.step,
            self.clock,
            results=await self._results(work),
            report=work.note_progress,
            complete=lambda result, connection: self._complete_within(work, result, connection),
        )
        work.context = context
        self._tell_started(work)
        value, error = await self._run(work.task, work, context)
        if work.completion is not None:
            return await self._settle_completed(work, context, work.completion, error)
        if error is None:
            return await self._succeeded(work, context, value)
        self._failed(work, context, error)
        return None

    async def _run(self, task: Task, work: Work, context: Context) -> tuple[Any, BaseException | None]:
        """What the function gives: a result that can be stored, or an error."""
        if work.interruption is not None:
            return None, asyncio.CancelledError()
        work.running = asyncio.current_task()
        try:
            value = await self.invoker.invoke(task, work, context)
            return encode(to_json(value)), None
        except BaseException as error:  # noqa: BLE001 — whatever a task raises is a failure of the step
            return None, error
        finally:
            work.running = None

    async def _succeeded(self, work: Work, context: Context, result: str) -> Work | None:
        seconds = context.elapsed()
        self._report_success(work, seconds)
        if work.is_last_step:
            self.recorder.put(
                outcome.completed(work, result), lambda won: self._told_success(work, seconds, won)
            )
            return None
        return await self._advance(work, result, seconds)

    async def _advance(self, work: Work, result: str, seconds: float) -> Work | None:
        step = work.definition.steps[work.claim.step_index + 1]
        queue = work.claim.queue if step.queue == work.step.queue else step.queue
        started_at = work.claim.attempt_started_at + seconds
        following = Work(
            outcome.next_claim(work.claim, result, queue, started_at),
            work.definition,
            self.registry.tasks.get(step.task),
            {},
        )
        in_place = self._goes_on(work, following)
        record = outcome.advanced(work, result, step, ttl=self.lease_seconds, in_place=in_place)
        won = await self.recorder.record(record)
        self._told_step(work, seconds, won)
        if not won or not in_place:
            return None
        return self._handed_over(work, following, result)

    def _goes_on(self, work: Work, following: Work) -> bool:
        """Under the same lease, unless somebody has to be asked first, or the worker is about to stop."""
        if self.stopping or work.interruption is not None or following.task is None:
            return False
        if following.claim.queue != work.claim.queue or following.step.breaker is not None:
            return False
        following.limits = self._limits(following)
        return not following.limits

    def _handed_over(self, work: Work, following: Work, result: str) -> Work:
        following.results = {**(work.results or {}), work.step.name: decode(result)}
        following.interruption = work.interruption
        work.pass_on(following)
        return following

    def _failed(self, work: Work, context: Context, error: BaseException) -> None:
        seconds = context.elapsed()
        if work.interruption is Interruption.LOST:
            self._report_nothing(work)
            self._tell(event.LeaseLost(work.ref))
            return
        if work.interruption is Interruption.CANCELLED:
            self._cancelled(work)
            return
        evidence = self._evidence(work, error)
        self._report_failure(work, evidence, seconds)
        decision = self._decide(work, evidence, error)
        self._record(work, evidence, decision, _attempt_outcome(decision), seconds)

    def _evidence(self, work: Work, error: BaseException) -> Evidence:
        return evidence_of(
            error,
            classifier=None if work.task is None else work.task.classifier,
            redactor=self.redactor,
            step=work.step.name,
            now=self.clock.now(),
        )

    def _decide(self, work: Work, evidence: Evidence, error: BaseException) -> Decision:
        now = self.clock.now()
        if isinstance(error, DeferredError):
            return self._deferred(work, evidence, error, now)
        decision = decide(
            work.claim.tally,
            evidence.failure,
            work.policy,
            now=now,
            draw=self.random.random(),
            repeatable=work.step.effect is not Effect.UNSAFE,
        )
        if isinstance(decision, Release) and work.interruption is None and decision.at <= now:
            # Cancelled by its own doing: not at once again, or it would turn in circles.
            return Release(now + INTERRUPTED_DELAY, decision.explanation._replace(at=now + INTERRUPTED_DELAY))
        return decision

    def _deferred(self, work: Work, evidence: Evidence, error: DeferredError, now: float) -> Decision:
        if work.claim.holds >= work.policy.max_holds:
            return Bury(Explanation(Reason.HOLDS_SPENT, evidence.failure.rule, evidence.failure.category))
        at = now + error.retry_after
        return Release(at, Explanation(Reason.DEFERRED, at=at))

    def _cancelled(self, work: Work) -> None:
        self._report_nothing(work)
        evidence = evidence_without_error(
            Category.CANCELLED, ErrorClass.FINAL, "cancelled", "the run was cancelled", step=work.step.name
        )
        self.recorder.put(
            outcome.cancelled(work, evidence), lambda won: self._told_end(work, RunState.CANCELLED, won)
        )

    def _release_unknown(self, work: Work) -> None:
        name = work.step.task
        evidence = evidence_without_error(
            Category.MISSING_CONFIG,
            ErrorClass.RETRYABLE,
            "unknown_task",
            f"no task {name!r} is registered here; deploy a worker that knows it",
            step=work.step.name,
            unavailable=True,
            retry_after=UNKNOWN_TASK_DELAY,
        )
        now = self.clock.now()
        decision = decide(work.claim.tally, evidence.failure, work.policy, now=now, draw=0.0)
        if isinstance(decision, Release):
            decision = Release(decision.at, decision.explanation._replace(reason=Reason.UNKNOWN_TASK))
        self._tell(event.TaskUnknown(work.ref, UNKNOWN_TASK_DELAY))
        self._record(work, evidence, decision, _attempt_outcome(decision), 0.0)

    def settle_lost(self, work: Work) -> None:
        """Judge an attempt whose worker let its lease expire; nobody knows how far it came."""
        claim = work.claim
        if claim.cancel_requested_at is not None:
            self._cancelled(work)
            return
        evidence = evidence_without_error(
            Category.CANCELLED,
            ErrorClass.RETRYABLE,
            "lease_lost",
            f"the worker {claim.worker} has stopped renewing its lease: it died, or was cut off",
            step=work.step.name,
        )
        work.claim = _with_loss(claim)
        if work.claim.lonely_losses >= MOST_LONELY_LOSSES:
            self._bury_crashed(work)
            return
        decision = decide(
            claim.tally,
            evidence.failure,
            work.policy,
            now=self.clock.now(),
            draw=0.0,
            repeatable=work.step.effect is not Effect.UNSAFE,
        )
        self._record(work, evidence, decision, AttemptOutcome.LOST, 0.0)

    def _bury_crashed(self, work: Work) -> None:
        times = work.claim.losses + work.claim.lonely_losses
        evidence = evidence_without_error(
            Category.RESOURCE,
            ErrorClass.FINAL,
            "worker_crashed",
            f"{times} workers died while executing it, {work.claim.lonely_losses} of them with nothing else",
            step=work.step.name,
        )
        why = Explanation(Reason.WORKER_CRASHED, "worker_crashed", Category.RESOURCE)
        self._record(work, evidence, Bury(why), AttemptOutcome.LOST, 0.0)

    def hold(self, work: Work, held_by: str, retry_after: float | None) -> None:
        """Park what may not be executed now. Held by a breaker too often, it ends."""
        if retry_after is None:
            self._park(work, held_by, counted=False)
            return
        evidence = evidence_without_error(
            Category.NETWORK,
            ErrorClass.RETRYABLE,
            "breaker_open",
            f"held by {held_by}",
            step=work.step.name,
            unavailable=True,
            retry_after=retry_after,
        )
        decision = decide(work.claim.tally, evidence.failure, work.policy, now=self.clock.now(), draw=0.0)
        if isinstance(decision, Release):
            self._park(work, held_by, counted=True)
        else:
            self._record(work, evidence, decision, AttemptOutcome.RELEASED, 0.0)

    def _park(self, work: Work, held_by: str, *, counted: bool) -> None:
        def told(won: bool) -> None:
            if won:
                self._tell(event.StepHeld(work.ref, held_by))
            work.done()

        held = EventRow(self.ids.new(), work.claim.id, "held", work.claim.step_index, f"by {held_by}")
        record = outcome.parked(work, held_by, held if counted else None, counted=counted)
        self.recorder.put(record, told)

    def _record(
        self, work: Work, evidence: Evidence, decision: Decision, how: AttemptOutcome, seconds: float
    ) -> None:
        record = outcome.decided(
            work,
            evidence,
            decision,
            how,
            now=self.clock.now(),
            letter_id=self.ids.new(),
            redactor=self.redactor,
        )
        self.recorder.put(record, lambda won: self._told_decision(work, evidence, decision, seconds, won))

    # Exactly once: the task records its success within a transaction of its own.

    def _complete_within(self, work: Work, result: object, connection: object) -> Any:
        session = foreign_session(connection, self.store.database)
        text = encode(to_json(result))
        if work.is_last_step:
            record = outcome.completed(work, text)
        else:
            step = work.definition.steps[work.claim.step_index + 1]
            record = outcome.advanced(work, text, step, ttl=self.lease_seconds, in_place=False)
        return session.run(self._write_within(session, work, record))

    async def _write_within(self, session: ForeignSession, work: Work, record: Record) -> None:
        if not await self.store.records.record_within(session, [record]):
            raise LeaseLostError(f"the lease of run {work.claim.id} is lost; roll back")
        work.completion = record

    async def _settle_completed(
        self, work: Work, context: Context, record: Record, error: BaseException | None
    ) -> Work | None:
        """Was the transaction committed, in which the task has recorded its success?"""
        written, _ = await self.store.records.applied([record])
        seconds = context.elapsed()
        if work.claim.id in written:
            self._report_success(work, seconds)
            tell = self._told_success if work.is_last_step else self._told_step
            tell(work, seconds, True)
            return None
        self._failed(work, context, error or StoreError(_NOT_COMMITTED))
        return None

    # What is around an attempt: results of earlier steps, limits, breakers.

    async def _results(self, work: Work) -> dict[str, Any]:
        if work.results is None:
            rows = await self.store.runs.steps(work.claim.id)
            work.results = {row.name: None if row.output is None else decode(row.output) for row in rows}
        return work.results

    def _limits(self, work: Work) -> dict[str, int]:
        limits: dict[str, int] = {}
        if self.org_concurrency is not None:
            limits[f"org:{work.claim.org}"] = self.org_concurrency
        if work.task is not None and work.task.concurrency is not None:
            try:
                limits |= work.task.limit_for(work.payload)
            except Exception:  # noqa: BLE001 — a key that cannot be made limits nothing; the task itself will tell
                return limits
        return limits

    def _report_success(self, work: Work, seconds: float) -> None:
        if work.permit is not None and work.step.breaker is not None:
            self.breakers.report(work.step.breaker, Report(work.permit, CallOutcome.SUCCEEDED, seconds))

    def _report_nothing(self, work: Work) -> None:
        if work.permit is not None and work.step.breaker is not None:
            self.breakers.report(work.step.breaker, Report(work.permit, CallOutcome.NOTHING))

    def _report_failure(self, work: Work, evidence: Evidence, seconds: float) -> None:
        if work.permit is not None and work.step.breaker is not None:
            failure = evidence.failure
            report = Report(work.permit, outcome_of(failure), seconds, failure.retry_after)
            self.breakers.report(work.step.breaker, report)

    # Telling, once it is written.

    def _tell(self, told: event.Event) -> None:
        self.teller.tell(told)

    def _tell_started(self, work: Work) -> None:
        if self.teller.wants(event.StepStarted):
            self._tell(event.StepStarted(work.ref, work.claim.failures))

    def _told_success(self, work: Work, seconds: float, won: bool) -> None:
        self._told_step(work, seconds, won)
        self._told_end(work, RunState.SUCCESS, won)

    def _told_step(self, work: Work, seconds: float, won: bool) -> None:
        if not won:
            self._tell(event.LeaseLost(work.ref))
        elif work.claim.failures or self.teller.wants(event.StepSucceeded):
            self._tell(event.StepSucceeded(work.ref, seconds, work.claim.failures))

    def _told_end(self, work: Work, state: RunState, won: bool) -> None:
        work.done()
        if not won:
            return
        claim = work.claim
        self.finished(claim.id, state)
        if self.teller.wants(event.RunFinished):
            seconds = max(0.0, self.clock.now() - claim.submitted_at)
            self._tell(
                event.RunFinished(
                    claim.org, claim.id, claim.workflow, claim.queue, claim.correlation_id, state, seconds
                )
            )

    def _told_decision(
        self, work: Work, evidence: Evidence, decision: Decision, seconds: float, won: bool
    ) -> None:
        if not won:
            work.done()
            self._tell(event.LeaseLost(work.ref))
        elif isinstance(decision, Retry):
            self.due_in(decision.delay)
            why = decision.explanation
            self._tell(
                event.RetryScheduled(
                    work.ref, seconds, evidence.failure, why, decision.delay, decision.counted
                )
            )
            work.done()
        elif isinstance(decision, Release):
            delay = max(0.0, decision.at - self.clock.now())
            self.due_in(delay)
            self._tell(event.StepReleased(work.ref, decision.explanation.reason, delay))
            work.done()
        else:
            state = outcome.run_state(decision)
            self._tell(event.StepDied(work.ref, seconds, evidence.failure, decision.explanation, state))
            self._told_end(work, state, won)


_NOT_COMMITTED = "the step was completed within a transaction that was not committed"


def _attempt_outcome(decision: Decision) -> AttemptOutcome:
    return AttemptOutcome.RELEASED if isinstance(decision, Release) else AttemptOutcome.FAILED


def _with_loss(claim: Claim) -> Claim:
    if claim.alone:
        return claim._replace(lonely_losses=claim.lonely_losses + 1)
    losses = claim.losses + 1
    return claim._replace(losses=losses, alone=1 if losses >= MOST_LOSSES else 0)
