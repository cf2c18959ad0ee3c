"""The failure handler: decides by policy what happens after an unsuccessful attempt, and records it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isnan
from random import Random

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.event_reporter import EventReporter
from redrive.engine.evidence import Evidence, evidence_of, evidence_of_loss, evidence_without_error
from redrive.engine.ids import Ids
from redrive.engine.known_work import KnownWork
from redrive.engine.recorder import Recorder
from redrive.engine.recording import (
    AttemptVerdict,
    cancellation_record,
    failure_record,
    given_back_record,
    hold_record,
)
from redrive.engine.work import Work
from redrive.errors import DeferredError
from redrive.model.breaker import CallOutcome
from redrive.model.claim import Claim, Isolation
from redrive.model.decision import Decision, Explanation, Reason, Release
from redrive.model.fact import fact
from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.model.run import HELD_BY_TASK, RunEvent, new_event
from redrive.model.step import AttemptOutcome, Effect
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.breaker import outcome_of
from redrive.policy.retry import decide, end

PROBE_DELAY = 0.1
MAX_LOSSES = 2
"""After this many workers have died while executing a step together with others, it is executed alone."""
MAX_ISOLATED_CRASHES = 3


@dataclass(frozen=True, slots=True)
class FailureHandler:
    clock: Clock
    random: Random
    ids: Ids
    recorder: Recorder
    reporter: EventReporter
    letter_policy: DeadLetterPolicy
    longest_hint: float
    known_work: KnownWork

    def classify(self, work: Work, error: BaseException) -> Evidence:
        return evidence_of(
            error,
            classifier=None if work.task is None else work.task.classifier,
            redactor=self.letter_policy.redactor,
            step=work.step.name,
            now=self.clock.now(),
        )

    def decide(self, work: Work, evidence: Evidence, error: BaseException) -> AttemptVerdict:
        if not work.was_called:
            evidence = evidence._replace(failure=evidence.failure._replace(delivery=Delivery.NEVER_SEEN))
        if evidence.failure.category is Category.CANCELLED and work.interruption is None:
            evidence = _count_as_failure(evidence)
        decision = (
            self._deferred(work, evidence, error)
            or self._failed_probe(work, evidence)
            or self._decide(work, evidence)
        )
        released = isinstance(decision, Release)
        return AttemptVerdict(
            evidence, decision, AttemptOutcome.RELEASED if released else AttemptOutcome.FAILED
        )

    def record(self, work: Work, verdict: AttemptVerdict, seconds: float) -> None:
        record = failure_record(
            work,
            verdict,
            now=self.clock.now(),
            letter_id=self.ids.new(),
            letter_policy=self.letter_policy,
        )
        self.recorder.put(record, partial(self.reporter.decided, work, verdict, seconds))

    def cancelled(self, work: Work) -> None:
        record = cancellation_record(work.claim, work.step.name, limited=work.slots is not None)
        self.recorder.put(record, partial(self.reporter.run_cancelled, work))

    def unknown(self, work: Work) -> None:
        """Hold work whose task is not registered here, until a worker that has it releases it."""
        self.known_work.abstain(work.claim.workflow, work.step.task)
        record = hold_record(work, HELD_BY_TASK + work.step.task, None)
        self.recorder.put(record, partial(self.reporter.unknown, work))

    def give_back(self, work: Work) -> None:
        """Return work that was never started to its queue, as if no worker had claimed it."""
        self.recorder.put(given_back_record(work), partial(self.reporter.given_back, work))

    def lost(self, work: Work, *, blame: bool = True) -> None:
        """Handle an attempt whose lease expired. How far the attempt got is unknown.

        `blame`: the attempt may have crashed its worker.
        """
        if work.claim.cancel_requested_at is not None:
            self.cancelled(work)
            return
        evidence = evidence_of_loss(work.claim.worker, step=work.step.name)
        decision = _with_reason(self._decide(work, evidence), Reason.LEASE_LOST)
        work.claim = (
            _with_loss(work.claim) if blame else work.claim.replace(isolation=work.claim.isolation.requested)
        )
        if work.claim.isolated_crashes >= MAX_ISOLATED_CRASHES:
            evidence, decision = _crash_failure(work)
        self.record(work, AttemptVerdict(evidence, decision, AttemptOutcome.LOST), 0.0)

    def hold(self, work: Work, held_by: str, retry_after: float | None) -> None:
        """Put work on hold. A breaker sets `retry_after`; a step that breakers held too often fails."""
        if retry_after is None:
            self._park(work, held_by, None)
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
        decision = self._decide(work, evidence)
        if isinstance(decision, Release):
            claim = work.claim
            held = fact("held", holder=held_by)
            event = new_event(self.ids.new(), claim.id, held.code, claim.step_index, held)
            self._park(work, held_by, event)
        else:
            self.record(work, AttemptVerdict(evidence, decision, AttemptOutcome.RELEASED), 0.0)

    def _decide(self, work: Work, evidence: Evidence) -> Decision:
        return decide(
            work.claim.tally,
            evidence.failure,
            work.policy,
            now=self.clock.now(),
            draw=self.random.random(),
            repeatable=work.step.effect is not Effect.UNSAFE,
            longest_hint=self.longest_hint,
        )

    def _deferred(self, work: Work, evidence: Evidence, error: BaseException) -> Decision | None:
        if not isinstance(error, DeferredError):
            return None
        if work.claim.holds >= work.policy.max_holds:
            return end(Reason.HOLDS_SPENT, work.claim.tally, evidence.failure, work.policy)
        at = self.clock.now() + _limit_delay(error.retry_after)
        return Release(at, Explanation(Reason.DEFERRED, at=at))

    def _failed_probe(self, work: Work, evidence: Evidence) -> Decision | None:
        """Release a failed probe without counting a failure: the outage must not use up its retry budget."""
        failure = evidence.failure
        if work.permit is None or not work.permit.probe or outcome_of(failure) is not CallOutcome.FAILED:
            return None
        if work.step.effect is Effect.UNSAFE and failure.may_have_executed:
            return None
        held = evidence._replace(failure=failure._replace(unavailable=True, retry_after=PROBE_DELAY))
        return _with_reason(self._decide(work, held), Reason.PROBE)

    def _park(self, work: Work, held_by: str, event: RunEvent | None) -> None:
        record = hold_record(work, held_by, event)
        self.recorder.put(record, partial(self.reporter.held, work, held_by))


def _with_reason(decision: Decision, reason: Reason) -> Decision:
    """Set the reason of a release. Other decisions keep theirs."""
    if not isinstance(decision, Release):
        return decision
    return Release(decision.at, decision.explanation._replace(reason=reason))


def _count_as_failure(evidence: Evidence) -> Evidence:
    """Count a self-inflicted cancellation (sys.exit()) as a failure; otherwise it would loop forever."""
    failure = evidence.failure._replace(category=Category.UNKNOWN, error_class=ErrorClass.RETRYABLE)
    return evidence._replace(failure=failure)


def _limit_delay(seconds: float) -> float:
    return 0.0 if isnan(seconds) else min(max(0.0, seconds), MAX_DELAY_SECONDS)


def _with_loss(claim: Claim) -> Claim:
    if claim.isolation is Isolation.ACTIVE:
        return claim.replace(isolated_crashes=claim.isolated_crashes + 1, isolation=Isolation.REQUIRED)
    if claim.isolation:  # it was still waiting for other work to finish and cannot have crashed the worker
        return claim
    losses = claim.losses + 1
    return claim.replace(
        losses=losses, isolation=Isolation.REQUIRED if losses >= MAX_LOSSES else Isolation.NONE
    )


def _crash_failure(work: Work) -> tuple[Evidence, Decision]:
    isolated, total = work.claim.isolated_crashes, work.claim.losses + work.claim.isolated_crashes
    evidence = evidence_without_error(
        Category.RESOURCE,
        ErrorClass.FINAL,
        "worker_crashed",
        f"{total} workers crashed while executing this step, {isolated} of them while executing nothing else",
        step=work.step.name,
    )
    return evidence, end(Reason.WORKER_CRASHED, work.claim.tally, evidence.failure, work.policy)
