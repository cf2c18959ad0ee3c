"""The executor: run, classify, decide, record, tell. What did not succeed goes to the judge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from redrive.clock import Clock
from redrive.engine import outcome
from redrive.engine.breakers import Breakers, Report
from redrive.engine.context import Context
from redrive.engine.encryption import Encryption
from redrive.engine.event_reporter import EventReporter
from redrive.engine.evidence import Evidence
from redrive.engine.failure_handler import FailureHandler
from redrive.engine.in_flight import InFlight
from redrive.engine.invoker import Invoker
from redrive.engine.payload import json_and_text
from redrive.engine.recorder import Recorder
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.task import Task
from redrive.engine.work import Completion, Interruption, Work, WorkFactory
from redrive.errors import LeaseLostError, NotStorableError, StoreError
from redrive.model.breaker import CallOutcome
from redrive.model.run import Place
from redrive.policy.breaker import outcome_of
from redrive.policy.codec import JsonLimits, JsonValue, decode
from redrive.store.foreign import ForeignSession, foreign_session
from redrive.store.record import Record
from redrive.store.store import Store


@dataclass(slots=True)
class Executor:
    """`attempts` counts the calls of users' functions."""

    store: Store
    clock: Clock
    retrier: StoreRetrier
    signals: Signals
    in_flight: InFlight
    works: WorkFactory
    invoker: Invoker
    breakers: Breakers
    recorder: Recorder
    reporter: EventReporter
    failure_handler: FailureHandler
    limits: JsonLimits
    lease_seconds: float
    encryption: Encryption
    attempts: int = 0

    async def execute(self, work: Work) -> None:
        """One step after the other, as long as the run can go on under the same lease."""
        following: Work | None = work
        while following is not None:
            following = await self._execute_step(following)

    async def _execute_step(self, work: Work) -> Work | None:
        if work.task is None:
            self.failure_handler.unknown(work)
            return None
        try:
            context = work.context = self._context(work, await self._results(work))
        except NotStorableError as unreadable:  # what an earlier step has given, or a key that is not here
            self._failed(work, unreadable, 0.0)
            return None
        self.reporter.started(work)
        result, error = await self._run(work.task, work, context)
        if work.completion is not None:
            await self._settle_completion(work, context, work.completion, error)
            return None
        if error is None:
            return await self._succeeded(work, result, context.elapsed())
        self._failed(work, error, context.elapsed())
        return None

    async def _run(self, task: Task, work: Work, context: Context) -> tuple[str, BaseException | None]:
        """What the function gives: a result that can be stored, or an error."""
        if self.in_flight.has_expired(work):  # another worker may have started it
            work.interrupt(Interruption.LOST)
        if work.interruption is not None:
            return "", asyncio.CancelledError()
        self.attempts += 1
        work.running = work.carrier
        try:
            value = await self.invoker.invoke(task, work, context)
            return json_and_text(value, limits=self.limits)[1], None
        except BaseException as error:  # noqa: BLE001 — whatever a task raises is a failure of the step
            return "", error
        finally:
            work.running = None

    async def _succeeded(self, work: Work, result: str, seconds: float) -> Work | None:
        self._report(work, CallOutcome.SUCCEEDED, seconds)
        if work.goes_on:
            return await self._advance(work, result, seconds)
        told = partial(self.reporter.run_succeeded, work, seconds)
        self.recorder.put(self._completed(work, self.encryption.encrypt(result)), told)
        return None

    @staticmethod
    def _completed(work: Work, result: str) -> Record:
        return (
            outcome.completed(work, result) if work.is_last_step else outcome.completed_partly(work, result)
        )

    async def _advance(self, work: Work, result: str, seconds: float) -> Work | None:
        """On to the next step: under the same lease where nobody has to be asked first."""
        sealed = self.encryption.encrypt(result)
        following = self._following(work, sealed, seconds)
        in_place = self._goes_on(work, following)
        step = following.step
        record = outcome.advanced(work, sealed, step, ttl=self.lease_seconds, in_place=in_place)
        recorded = await self.recorder.record(record)
        self.reporter.step_succeeded(work, seconds, recorded)
        if recorded is None or recorded.place != Place.LEASED:
            self.in_flight.remove(work)
            await self.store.database.hint([following.claim.queue])
            return None
        following.results = {**(work.results or {}), work.step.name: decode(result)}
        following.interruption = work.interruption
        self.in_flight.follow(work, following)
        return following

    def _following(self, work: Work, result: str, seconds: float) -> Work:
        step = work.definition.steps[work.claim.step_index + 1]
        queue, started_at = outcome.next_queue(work, step), work.claim.attempt_started_at + seconds
        claim = outcome.next_claim(work.claim, result, queue, started_at)
        return self.works.make(claim, work.definition)

    def _goes_on(self, work: Work, following: Work) -> bool:
        stopped = self.signals.stopping.is_set() or work.interruption is not None
        if stopped or following.task is None or work.claim.replays:
            return False
        return not following.is_bound and following.claim.queue == work.claim.queue

    def _failed(self, work: Work, error: BaseException, seconds: float) -> None:
        if work.interruption is Interruption.LOST:
            self._report(work, CallOutcome.NOTHING)
            self.reporter.lost(work)
        elif work.interruption is Interruption.CANCELLED:
            self._report(work, CallOutcome.NOTHING)
            self.failure_handler.cancelled(work)
        else:
            evidence = self.failure_handler.evidence(work, error)
            self._report_failure(work, evidence, seconds)
            self.failure_handler.failed(work, evidence, error, seconds)

    def give_back(self, work: Work) -> None:
        """For others to execute, uncharged: it cannot be executed, or finished, here and now."""
        work.interrupt(Interruption.DRAINED)
        self._failed(work, asyncio.CancelledError(), 0.0)

    # Exactly once: the task records its success within a transaction of its own.

    def _complete_within(self, work: Work, result: object, connection: object) -> Any:
        session = foreign_session(connection, self.store.database)
        text = self.encryption.encrypt(json_and_text(result, limits=self.limits)[1])
        if not work.goes_on:
            record = self._completed(work, text)
        else:
            step = work.definition.steps[work.claim.step_index + 1]
            record = outcome.advanced(work, text, step, ttl=self.lease_seconds, in_place=False)
        return session.run(self._write_within(session, work, record))

    async def _write_within(self, session: ForeignSession, work: Work, record: Record) -> None:
        recorded = (await self.store.records.record_within(session, [record])).get(work.claim.id)
        if recorded is None:
            raise LeaseLostError(f"the lease of run {work.claim.id} is lost; roll back")
        work.completion = Completion(record, recorded)

    async def _settle_completion(
        self, work: Work, context: Context, completion: Completion, error: BaseException | None
    ) -> None:
        """Look whether the transaction was committed in which the task has recorded its success."""
        look = partial(self.store.records.applied, [completion.record])
        written, _ = await self.retrier.run("record", look)
        seconds = context.elapsed()
        if work.claim.id not in written:
            self._failed(work, error or StoreError(_NOT_COMMITTED), seconds)
            return
        self._report(work, CallOutcome.SUCCEEDED, seconds)
        if not work.goes_on:
            self.reporter.run_succeeded(work, seconds, completion.recorded)
        else:
            self.reporter.step_succeeded(work, seconds, completion.recorded)
            self.in_flight.remove(work)
            await self.store.database.hint([self._following(work, "null", seconds).claim.queue])

    # What is around an attempt: the context, limits, breakers.

    async def _results(self, work: Work) -> dict[str, JsonValue]:
        """What the earlier steps have given."""
        if work.results is None:
            read = partial(self.store.runs.steps, work.claim.id, work.claim.org)
            rows = await self.retrier.run("results", read)
            work.results = {row.name: self._opened(row.output) for row in rows}
        return work.results

    def _opened(self, output: str | None) -> JsonValue:
        return None if output is None else decode(self.encryption.decrypt(output))

    def _context(self, work: Work, results: dict[str, JsonValue]) -> Context:
        return Context(
            work.opened,
            work.step,
            self.clock,
            max_attempts=work.policy.max_attempts,
            results=results,
            report=work.note_progress,
            complete=partial(self._complete_within, work),
        )

    def _report(self, work: Work, what: CallOutcome, seconds: float = 0.0) -> None:
        if work.permit is not None and work.step.breaker is not None:
            self.breakers.report(work.step.breaker, Report(work.permit, what, seconds))

    def _report_failure(self, work: Work, evidence: Evidence, seconds: float) -> None:
        if work.permit is not None and work.step.breaker is not None:
            failure = evidence.failure
            report = Report(work.permit, outcome_of(failure), seconds, failure.retry_after)
            self.breakers.report(work.step.breaker, report)


_NOT_COMMITTED = "the step was completed within a transaction that was not committed"
