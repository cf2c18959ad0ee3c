"""The executor: runs a step, classifies a failure, decides what happens next, and records the outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from redrive.calls.running_step import enter_step
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
CLEAN_UP_SECONDS = 5.0
"""How long a task may take to stop after it was cancelled. Then the worker stops waiting for it."""
LAUNCHES_PER_TURN = 8


class _Attempt(Struct, frozen=True):
    result: str
    error: BaseException | None
    seconds: float


@dataclass(slots=True)
class Executor:
    """
    tasks     the asyncio tasks that are executing work, with the work
    attempts  the number of calls of user functions so far
    stubborn  the abandoned work, whose functions swallowed their cancellation and are still running
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
    tasks: dict[asyncio.Task[None], Work] = field(default_factory=dict)
    attempts: int = 0
    stubborn: set[Work] = field(default_factory=set)
    _overdue: dict[Context, float] = field(default_factory=dict)
    _to_launch: deque[Work] = field(default_factory=deque)
    _is_launching: bool = False

    def launch(self, works: Sequence[Work]) -> None:
        """Execute each claimed run in a separate asyncio task, starting a few per turn of the event loop.

        Starting all at once would keep the loop from handling responses of the database in the meantime.
        """
        self._to_launch.extend(works)
        if not self._is_launching:
            self._is_launching = True
            self._launch_some(asyncio.get_running_loop())

    def _launch_some(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(LAUNCHES_PER_TURN, len(self._to_launch))):
            work = self._to_launch.popleft()
            carrier = work.carrier = loop.create_task(self._execute(work))
            if not carrier.done():  # an eager task may already be done
                self.tasks[carrier] = work
        self._is_launching = bool(self._to_launch)
        if self._is_launching:
            loop.call_soon(self._launch_some, loop)

    async def launched(self) -> None:
        """Wait until all claimed runs have their tasks."""
        while self._to_launch:  # noqa: ASYNC110 — each turn of the loop launches some
            await asyncio.sleep(0)

    @property
    def executing(self) -> int:
        """The number of runs being executed or about to start."""
        return len(self.tasks) + len(self._to_launch)

    async def abandon(self) -> None:
        """Interrupt all work, because the worker stops and work must not continue without a lease.

        After a drain, only functions that don't stop are left: nothing renews their leases any longer.
        """
        for work in self.in_flight.works:
            work.interrupt(Interruption.LOST)
        for work in await self.unstopped():
            work.revoke()

    async def unstopped(self) -> list[Work]:
        """Wait a moment for interrupted work. Return the work whose functions are still running."""
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=ABANDON_SECONDS)
        return [work for work in self.tasks.values() if work.is_executing]

    def abandon_stubborn(self) -> None:
        """Stop waiting for functions that swallow their cancellation: record what they were cancelled for.

        A function counts as stubborn if an earlier call has already found it overdue: after a block of the
        event loop, its cancellation has to reach it first. A step that waits for a thread was not called yet.
        """
        now, overdue = self.clock.monotonic(), {}
        for work in list(self.tasks.values()):
            context = work.context
            if context is None or not work.is_executing or work.is_in_thread or not work.was_called:
                continue
            if work.interruption is None and context.remaining() > 0.0:
                continue
            since = overdue[context] = self._overdue.get(context, now)
            if now - since >= CLEAN_UP_SECONDS and work.interruption is not Interruption.DRAINED:
                self._abandon_stubborn(work, context)
        self._overdue = overdue

    def _abandon_stubborn(self, work: Work, context: Context) -> None:
        work.is_abandoned = True
        context.revoke()
        if work.carrier is not None:
            self.tasks.pop(work.carrier, None)
        self.stubborn.add(work)
        self.reporter.abandoned(work)
        error = context.out_of_time() if work.interruption is None else asyncio.CancelledError()
        self._record_failure(work, error, context.elapsed())
        self.in_flight.room_made.set()

    async def _execute(self, work: Work) -> None:
        """Run, classify, decide and record a step, and the following steps under the same lease.

        A single coroutine does it all, because every additional one would slow down every job.
        """
        goes_on = True
        try:
            while goes_on:
                if work.task is None:
                    self.failure_handler.unknown(work)
                    return
                attempt, goes_on = await self._run(work.task, work), False
                if work.is_abandoned:
                    return
                if work.completion is not None:
                    await self._confirm(work, attempt, work.completion)
                elif attempt.error is not None:
                    self._record_failure(work, attempt.error, attempt.seconds)
                elif work.goes_on:
                    goes_on = await self._advance(work, attempt)
                else:
                    self._complete(work, attempt)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 — a bug in Redrive, not a failed step
            # Stop renewing the lease: it will expire, and another worker will take over.
            self.in_flight.remove(work)
            self.retrier.report_failure("execute", repr(error), self.lease_seconds)
        finally:
            if work.carrier is not None:
                self.tasks.pop(work.carrier, None)
            if work.is_abandoned:
                self.stubborn.discard(work)
            self.in_flight.room_made.set()

    async def _run(self, task: AnyTask, work: Work) -> _Attempt:
        """Call the user's function. Return its result as storable text, or the error."""
        try:
            if work.outputs is None:
                work.outputs = await self._outputs(work)
            context = work.context = self._context(work, work.outputs)
        except NotStorableError as unreadable:  # a damaged output of an earlier step, or a missing key
            return _Attempt("", unreadable, 0.0)
        self.reporter.started(work)
        if self.in_flight.has_expired(work):  # another worker may have taken over
            work.interrupt(Interruption.LOST)
        if work.interruption is not None:
            return _Attempt("", asyncio.CancelledError(), context.elapsed())
        self.attempts += 1
        work.running = work.carrier
        slot = enter_step(context)
        try:
            value = await self.invoker.call(task, work, context)
            return _Attempt(json_and_text(value, limits=self.limits)[1], None, context.elapsed())
        except BaseException as error:  # noqa: BLE001 — anything a task raises is a failure of the step
            return _Attempt("", error, context.elapsed())
        finally:
            work.running = work.context = None  # break the reference cycle of the work and its context
            if not context.revoked:  # an abandoned thread may still use it
                slot.step = None

    # Success

    def _complete(self, work: Work, attempt: _Attempt) -> None:
        """Record the success of the last step. It is reported once it is durable."""
        self._report_call(work, CallOutcome.SUCCEEDED, attempt.seconds)
        result = self.encryption.encrypt(attempt.result)
        if work.changes_only_its_run:
            self.recorder.complete(work, result, attempt.seconds)
            return
        report = partial(self.reporter.run_succeeded, work, attempt.seconds)
        self.recorder.put(completion_record(work, result), report)

    async def _advance(self, work: Work, attempt: _Attempt) -> bool:
        """Record the success of a step. Return True if the next step starts here under the same lease."""
        self._report_call(work, CallOutcome.SUCCEEDED, attempt.seconds)
        output, queue = self.encryption.encrypt(attempt.result), self.works.next_queue(work)
        stopped = self.signals.stopping.is_set() or work.interruption is not None
        task = None if stopped else self.works.next_task(work, queue)
        change = advanced(work.claim, output, queue, ttl=self.lease_seconds, in_place=task is not None)
        if work.changes_only_its_run:
            recorded = await self.recorder.advance(work, change, attempt.seconds)
        else:
            recorded = await self.recorder.record(advance_record(work, change))
            self.reporter.step_succeeded(work, attempt.seconds, recorded)
        if task is not None and recorded is not None and recorded.place == Place.LEASED:
            work.start_next_step(task, attempt.result, output, attempt.seconds)
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
        elif work.interruption is Interruption.DRAINED and not work.was_called:
            self._report_call(work, CallOutcome.NOTHING)
            self.failure_handler.give_back(work)
        else:
            evidence = self.failure_handler.classify(work, error)
            failure = evidence.failure
            self._report_call(work, outcome_of(failure), seconds, failure.retry_after)
            verdict = self.failure_handler.decide(work, evidence, error)
            self.failure_handler.record(work, verdict, seconds)

    def give_back(self, work: Work) -> None:
        """Release work to other workers without counting a failure, because it cannot be finished here."""
        work.interrupt(Interruption.DRAINED)
        self._record_failure(work, asyncio.CancelledError(), 0.0)

    # Exactly once: the task records its success in its own transaction.

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
            raise LeaseLostError(
                f"another worker has taken over run {work.claim.id}; roll back your transaction"
            )
        work.completion = Completion(record, recorded)

    async def _confirm(self, work: Work, attempt: _Attempt, completion: Completion) -> None:
        """Report the success if the task committed the transaction in which it recorded it."""
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

    # Results, context and breakers of an attempt

    async def _outputs(self, work: Work) -> dict[str, str]:
        """Read the results of the earlier steps, by step name."""
        read = partial(self.store.runs.steps, work.claim.id, work.claim.org)
        rows = await self.retrier.run("results", read)
        outputs = {row.name: self.encryption.decrypt(row.output or "null") for row in rows}
        for output in outputs.values():
            decode_stored(output)  # a damaged result fails the attempt, even if the task does not use it
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
        """Report the outcome to the breaker that admitted the call."""
        if work.permit is not None and work.step.breaker is not None:
            report = Report(work.permit, outcome, seconds, retry_after)
            self.breakers.report(work.step.breaker, report)


_NOT_COMMITTED = "the task called complete() but did not commit its transaction; commit before you return"
