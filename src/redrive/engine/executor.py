"""The executor: runs a step, classifies its failure, decides what follows, records and reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from redrive.clock import Clock
from redrive.engine.context import Context
from redrive.engine.encryption import Encryption
from redrive.engine.event_reporter import EventReporter
from redrive.engine.failure_handler import FailureHandler
from redrive.engine.in_flight import InFlight
from redrive.engine.invoker import Invoker
from redrive.engine.payload import json_and_text
from redrive.engine.recorder import Recorder
from redrive.engine.recording import advance_record, advanced, completion_record
from redrive.engine.shared_breakers import Report, SharedBreakers
from redrive.engine.signals import Signals
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.task import AnyTask
from redrive.engine.work import Completion, Interruption, Work, WorkFactory
from redrive.errors import LeaseLostError, NotStorableError, StoreError
from redrive.model.breaker import CallOutcome
from redrive.model.run import Place
from redrive.policy.breaker import outcome_of
from redrive.policy.codec import JsonLimits, decode_stored
from redrive.store.database import Database
from redrive.store.joined import JoinedSession, joined_session
from redrive.store.record import Record
from redrive.store.store import Store

ABANDON_SECONDS = 0.5


class _Attempt(Struct, frozen=True):
    result: str
    error: BaseException | None
    seconds: float


@dataclass(slots=True)
class Executor:
    """
    tasks     the asyncio tasks that execute works now
    attempts  counts the calls of users' functions
    """

    database: Database
    store: Store
    clock: Clock
    retrier: StoreRetrier
    signals: Signals
    in_flight: InFlight
    works: WorkFactory
    invoker: Invoker
    breakers: SharedBreakers
    recorder: Recorder
    reporter: EventReporter
    failure_handler: FailureHandler
    limits: JsonLimits
    lease_seconds: float
    encryption: Encryption
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    attempts: int = 0

    def launch(self, works: Sequence[Work]) -> None:
        """Execute each work in an asyncio task of its own."""
        loop = asyncio.get_running_loop()
        for work in works:
            carrier = work.carrier = loop.create_task(self._execute(work))
            if not carrier.done():  # an eager task may be
                self.tasks.add(carrier)

    async def abandon(self) -> None:
        """Interrupt every work, because the worker ends and nothing may go on without a lease. A drain leaves
        none."""
        for work in self.in_flight.works:
            work.interrupt(Interruption.LOST)
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=ABANDON_SECONDS)

    async def _execute(self, work: Work) -> None:
        """Run, classify, decide and record the step of a work, and the next ones under the same lease.

        One coroutine does it all: each one more would cost every job.
        """
        goes_on = True
        try:
            while goes_on:
                if work.task is None:
                    self.failure_handler.unknown(work)
                    return
                attempt, goes_on = await self._run(work.task, work), False
                if work.completion is not None:
                    await self._confirm(work, attempt, work.completion)
                elif attempt.error is not None:
                    self._record_failure(work, attempt.error, attempt.seconds)
                elif work.goes_on:
                    goes_on = await self._advance(work, attempt)
                else:
                    self._complete(work, attempt)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 — a mistake of ours, not a failed step
            # Its lease is not renewed any more: it will expire, and another worker takes over.
            self.in_flight.remove(work)
            self.retrier.report_failure("execute", repr(error), self.lease_seconds)
        finally:
            self.tasks.discard(work.carrier)
            self.in_flight.room_made.set()

    async def _run(self, task: AnyTask, work: Work) -> _Attempt:
        """Call the user's function: a result that can be stored, or an error."""
        try:
            if work.outputs is None:
                work.outputs = await self._outputs(work)
            context = work.context = self._context(work, work.outputs)
        except NotStorableError as unreadable:  # the output of an earlier step, or its key is not here
            return _Attempt("", unreadable, 0.0)
        self.reporter.started(work)
        if self.in_flight.has_expired(work):  # another worker may have started it
            work.interrupt(Interruption.LOST)
        if work.interruption is not None:
            return _Attempt("", asyncio.CancelledError(), context.elapsed())
        self.attempts += 1
        work.running = work.carrier
        try:
            value = await self.invoker.call(task, work, context)
            return _Attempt(json_and_text(value, limits=self.limits)[1], None, context.elapsed())
        except BaseException as error:  # noqa: BLE001 — whatever a task raises is a failure of the step
            return _Attempt("", error, context.elapsed())
        finally:
            work.running = work.context = None  # a work and its context would keep each other alive

    # Success

    def _complete(self, work: Work, attempt: _Attempt) -> None:
        """The run ends. What is recorded is reported once it is durable."""
        self._report_call(work, CallOutcome.SUCCEEDED, attempt.seconds)
        result = self.encryption.encrypt(attempt.result)
        if work.has_nothing_beside:
            self.recorder.complete(work, result, attempt.seconds)
            return
        report = partial(self.reporter.run_succeeded, work, attempt.seconds)
        self.recorder.put(completion_record(work, result), report)

    async def _advance(self, work: Work, attempt: _Attempt) -> bool:
        """Record that the run goes on; True if it does so here: the next step starts under the same lease."""
        self._report_call(work, CallOutcome.SUCCEEDED, attempt.seconds)
        output, queue = self.encryption.encrypt(attempt.result), self.works.next_queue(work)
        stopped = self.signals.stopping.is_set() or work.interruption is not None
        task = None if stopped else self.works.next_task(work, queue)
        change = advanced(work.claim, output, queue, ttl=self.lease_seconds, in_place=task is not None)
        if work.has_nothing_beside:
            recorded = await self.recorder.advance(work, change, attempt.seconds)
        else:
            recorded = await self.recorder.record(advance_record(work, change))
            self.reporter.step_succeeded(work, attempt.seconds, recorded)
        if task is not None and recorded is not None and recorded.place == Place.LEASED:
            work.go_on(task, attempt.result, output, attempt.seconds)
            return True
        self.in_flight.remove(work)
        await self.store.hint([queue])
        return False

    # Failure

    def _record_failure(self, work: Work, error: BaseException, seconds: float) -> None:
        if work.interruption is Interruption.LOST:
            self._report_call(work, CallOutcome.NOTHING)
            self.reporter.lost(work)
        elif work.interruption is Interruption.CANCELLED:
            self._report_call(work, CallOutcome.NOTHING)
            self.failure_handler.cancelled(work)
        else:
            evidence = self.failure_handler.classify(work, error)
            failure = evidence.failure
            self._report_call(work, outcome_of(failure), seconds, failure.retry_after)
            verdict = self.failure_handler.decide(work, evidence, error)
            self.failure_handler.record(work, verdict, seconds)

    def give_back(self, work: Work) -> None:
        """Leave the work to other workers, uncharged: it cannot be executed, or finished, here and now."""
        work.interrupt(Interruption.DRAINED)
        self._record_failure(work, asyncio.CancelledError(), 0.0)

    # Exactly once: the task records its success within a transaction of its own.

    def _complete_within(self, work: Work, result: object, connection: object) -> Any:
        session = joined_session(connection, self.database)
        text = self.encryption.encrypt(json_and_text(result, limits=self.limits)[1])
        if not work.goes_on:
            record = completion_record(work, text)
        else:
            queue = self.works.next_queue(work)
            record = advance_record(
                work, advanced(work.claim, text, queue, ttl=self.lease_seconds, in_place=False)
            )
        return session.run(self._write_within(session, work, record))

    async def _write_within(self, session: JoinedSession, work: Work, record: Record) -> None:
        recorded = (await self.store.records.record_within(session, [record])).get(work.claim.id)
        if recorded is None:
            raise LeaseLostError(f"the lease of run {work.claim.id} is lost; roll back")
        work.completion = Completion(record, recorded)

    async def _confirm(self, work: Work, attempt: _Attempt, completion: Completion) -> None:
        """Report the success if the transaction was committed that the task has recorded it in."""
        look = partial(self.store.records.applied, [completion.record.change])
        written, _ = await self.retrier.run("record", look)
        if work.claim.id not in written:
            self._record_failure(work, attempt.error or StoreError(_NOT_COMMITTED), attempt.seconds)
            return
        self._report_call(work, CallOutcome.SUCCEEDED, attempt.seconds)
        if not work.goes_on:
            self.reporter.run_succeeded(work, attempt.seconds, completion.recorded)
        else:
            self.reporter.step_succeeded(work, attempt.seconds, completion.recorded)
            self.in_flight.remove(work)
            await self.store.hint([self.works.next_queue(work)])

    # The surroundings of an attempt: results, context, breakers

    async def _outputs(self, work: Work) -> dict[str, str]:
        """Read what the earlier steps have given, by name."""
        read = partial(self.store.runs.steps, work.claim.id, work.claim.org)
        rows = await self.retrier.run("results", read)
        outputs = {row.name: self.encryption.decrypt(row.output or "null") for row in rows}
        for output in outputs.values():
            decode_stored(output)  # a damaged one fails the attempt, even if the task does not ask for it
        return outputs

    def _context(self, work: Work, outputs: dict[str, str]) -> Context:
        return Context(
            work.opened,
            work.step,
            self.clock,
            max_attempts=work.policy.max_attempts,
            outputs=outputs,
            report=work.note_progress,
            complete=partial(self._complete_within, work),
        )

    def _report_call(
        self, work: Work, outcome: CallOutcome, seconds: float = 0.0, retry_after: float | None = None
    ) -> None:
        """Report to the breaker that has let the call through."""
        if work.permit is not None and work.step.breaker is not None:
            report = Report(work.permit, outcome, seconds, retry_after)
            self.breakers.report(work.step.breaker, report)


_NOT_COMMITTED = "the step was completed within a transaction that was not committed"
