"""Builds the record of each claim's outcome: the change of its run, and the rows to insert."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.evidence import Evidence, evidence_of_loss, evidence_without_error
from redrive.engine.work import Work
from redrive.model.claim import Claim, Isolation
from redrive.model.decision import Block, Bury, Decision, Explanation, Fail, Reason, Release, Retry
from redrive.model.fact import Fact, fact
from redrive.model.failure import Category, ErrorClass
from redrive.model.replay import ReplayState
from redrive.model.run import Place, RunEvent, RunState, new_event
from redrive.model.step import AttemptOutcome, AttemptRecord, FinishedStep, StepState
from redrive.store.dead_letter_writer import RejectedLetter
from redrive.store.record import (
    REJECTION_EVENT,
    Advanced,
    Change,
    Completed,
    CompletedPartly,
    Parked,
    Record,
    Rescheduled,
    Stopped,
)
from redrive.store.replays import Settlement

_ENCODER = msgspec.json.Encoder()
_ENDINGS = {
    Bury: (RunState.DLQ_PENDING, StepState.DLQ),
    Block: (RunState.DLQ_PENDING, StepState.BLOCKED),
    Fail: (RunState.FAILED, StepState.FAILED),
}


class AttemptVerdict(NamedTuple):
    """The decision about an attempt that did not succeed, with its evidence and outcome."""

    evidence: Evidence
    decision: Decision
    outcome: AttemptOutcome


def final_state(decision: Decision) -> RunState:
    """Return the state of a run after a decision that writes a dead letter."""
    return _ENDINGS[type(decision)][0]


# Success


def completed(claim: Claim, result: str) -> Completed:
    return Completed(id=claim.id, token=claim.token, epoch=claim.epoch, result=result)


def advanced(claim: Claim, output: str, queue: str, *, ttl: float, in_place: bool) -> Advanced:
    """Record a successful step; with `in_place`, the next step starts under the same lease."""
    return Advanced(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        step_input=output,
        queue=queue,
        in_place=in_place,
        ttl=ttl,
    )


def completion_record(work: Work, result: str) -> Record:
    """Record a successful run, or the end of a run of which only this step was replayed."""
    claim = work.claim
    change: Change = completed(claim, result)
    if not work.is_last_step:
        change = CompletedPartly(id=claim.id, token=claim.token, epoch=claim.epoch)
    step = finished_step(work, result) if len(work.definition.steps) > 1 else None
    settlement = _settlement(claim, ReplayState.SUCCEEDED)
    return Record(change, step=step, settlement=settlement, limited=work.slots is not None)


def advance_record(work: Work, change: Advanced) -> Record:
    """Record a successful step and continue the run with the next step."""
    settlement, step = _settlement(work.claim, None), finished_step(work, change.output)
    return Record(change, step=step, settlement=settlement, limited=work.slots is not None)


def finished_step(work: Work, output: str) -> FinishedStep:
    claim = work.claim
    return FinishedStep(
        run_id=claim.id,
        step_index=claim.step_index,
        name=work.step.name,
        task=work.step.task,
        state=StepState.SUCCESS,
        output=output,
        attempts=claim.attempt,
        worker=claim.worker,
        code_version=claim.code_version,
        started_at=claim.attempt_started_at,
    )


# Failures, cancellations and holds


def failure_record(
    work: Work, verdict: AttemptVerdict, *, now: float, letter_id: str, letter_policy: DeadLetterPolicy
) -> Record:
    evidence, decision, outcome = verdict
    claim, why, limited = work.claim, decision.explanation, work.slots is not None
    if isinstance(decision, Retry | Release):
        delay = decision.delay if isinstance(decision, Retry) else max(0.0, decision.at - now)
        change = _rescheduled(claim, decision, evidence, delay)
        return Record(change, attempt_row(claim, evidence, why, outcome, delay), limited=limited)
    attempt = attempt_row(claim, evidence, why, outcome, None)
    mark = evidence.fingerprint
    note = fact("failed_again", step=work.step.name, title=evidence.title).encode() if claim.replays else None
    settlement = _settlement(claim, ReplayState.FAILED, mark.value, note)
    if reason := letter_policy.rejection(work, evidence.failure):
        stopped = _stopped(claim, RunState.FAILED, StepState.FAILED, evidence, why)
        event = _rejected(work, evidence, reason, letter_id)
        return Record(stopped, attempt, event=event, settlement=settlement, limited=limited)
    stopped = _stopped(claim, *_ENDINGS[type(decision)], evidence, why)
    letter = letter_policy.letter(work, evidence, why.reason, letter_id)
    return Record(stopped, attempt, dead_letter=letter, settlement=settlement, limited=limited)


def cancellation_record(claim: Claim, step: str, *, limited: bool) -> Record:
    evidence = evidence_without_error(
        Category.CANCELLED, ErrorClass.FINAL, "cancelled", "the run was cancelled", step=step
    )
    attempt = attempt_row(claim, evidence, Explanation(Reason.CANCELLED), AttemptOutcome.CANCELLED, None)
    change = Stopped(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        state=RunState.CANCELLED,
        step_state=StepState.CANCELLED,
        failures=claim.failures,
        error_class=None,
        failed=False,
    )
    settlement = _settlement(claim, ReplayState.CANCELLED, note=fact("run_cancelled").encode())
    return Record(change, attempt, settlement=settlement, limited=limited)


def hold_record(work: Work, held_by: str, event: RunEvent | None) -> Record:
    """Park a run. A breaker counts the hold and adds an event to the history; a limit does neither."""
    claim = work.claim
    change = Parked(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        held_by=held_by,
        step_state=_waiting_state(claim),
        holds=claim.holds + (0 if event is None else 1),
    )
    return Record(change, event=event)


def unreadable_record(claim: Claim, delay: float, *, lost: bool) -> Record:
    """Postpone a run whose row cannot be read. `lost`: another worker had started an attempt."""
    if claim.cancel_requested_at is not None:
        return cancellation_record(claim, "", limited=claim.slots is not None)
    attempt = None
    if lost:
        evidence, why = evidence_of_loss(claim.worker, step=""), Explanation(Reason.LEASE_LOST)
        attempt = attempt_row(claim, evidence, why, AttemptOutcome.LOST, delay)
    change = _given_back(claim, Place.WAITING, StepState.PENDING, delay=delay, holds=1, started=lost)
    return Record(change, attempt, limited=claim.slots is not None)


def given_back_record(work: Work) -> Record:
    """Return work that was never started to its queue: there is no attempt, and its number is free again."""
    claim = work.claim
    place = _place(0.0, claim.isolation.requested)
    change = _given_back(claim, place, _waiting_state(claim), delay=0.0, holds=0, started=False)
    return Record(change, limited=work.slots is not None)


def _given_back(
    claim: Claim, place: Place, step_state: StepState, *, delay: float, holds: int, started: bool
) -> Rescheduled:
    """Reschedule a run without counting a failure. `holds` is added to its holds."""
    return Rescheduled(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        place=place,
        step_state=step_state,
        delay=delay,
        failures=claim.failures,
        rate_limit_waits=claim.rate_limit_waits,
        holds=claim.holds + holds,
        losses=claim.losses,
        isolated_crashes=claim.isolated_crashes,
        isolation=claim.isolation.requested,
        previous_delay=claim.previous_delay,
        error_class=None,
        failed=False,
        given_back=not started,
    )


def _waiting_state(claim: Claim) -> StepState:
    """Return the state of a step that waits to be executed."""
    return StepState.RETRYING if claim.failures else StepState.PENDING


def attempt_row(
    claim: Claim, evidence: Evidence, why: Explanation, outcome: AttemptOutcome, delay: float | None
) -> AttemptRecord:
    failure = evidence.failure
    return AttemptRecord(
        run_id=claim.id,
        step_index=claim.step_index,
        number=claim.attempt,
        outcome=outcome,
        worker=claim.worker,
        code_version=claim.code_version,
        started_at=claim.attempt_started_at,
        delay=delay,
        category=failure.category,
        error_class=failure.error_class,
        error_type=failure.error_type,
        message=failure.message,
        stack=evidence.stack,
        http_status=failure.http_status,
        public_code=failure.public_code,
        public_message=failure.public_message,
        reason=why.reason,
        decision=decision_text(why),  # type: ignore[arg-type]  # a row to be written holds the text
        replay=claim.replays,
    )


def decision_text(why: Explanation) -> str:
    """Encode the facts of a decision. Replace characters of custom rule names that UTF-8 cannot encode."""
    facts = why.facts()
    try:
        return _ENCODER.encode(facts).decode()
    except UnicodeEncodeError:
        rule = facts.rule.encode(errors="replace").decode()
        return _ENCODER.encode(msgspec.structs.replace(facts, rule=rule)).decode()


def _settlement(
    claim: Claim, state: ReplayState | None, fingerprint: str | None = None, note: str | None = None
) -> Settlement | None:
    if claim.replays == 0:
        return None
    return Settlement(
        run_id=claim.id,
        step_index=claim.step_index,
        state=state,
        fingerprint_after=fingerprint,
        note=note,
        has_letter=claim.has_letter,
    )


def _rescheduled(claim: Claim, decision: Retry | Release, evidence: Evidence, delay: float) -> Rescheduled:
    tally = claim.tally.after(decision)
    counted = isinstance(decision, Retry) and decision.counted
    return Rescheduled(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        place=_place(delay, claim.isolation),
        step_state=StepState.RETRYING if isinstance(decision, Retry) else StepState.PENDING,
        delay=delay,
        failures=tally.failures,
        rate_limit_waits=tally.rate_limit_waits,
        holds=tally.holds,
        losses=claim.losses,
        isolated_crashes=claim.isolated_crashes,
        isolation=claim.isolation,
        previous_delay=tally.previous_delay,
        error_class=evidence.failure.error_class,
        failed=counted,
    )


def _place(delay: float, isolation: Isolation) -> Place:
    if delay > 0.0:
        return Place.WAITING
    return Place.ALONE if isolation else Place.READY


def _stopped(
    claim: Claim, state: RunState, step_state: StepState, evidence: Evidence, why: Explanation
) -> Stopped:
    return Stopped(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        state=state,
        step_state=step_state,
        failures=why.failures,
        error_class=evidence.failure.error_class,
        failed=why.failures > claim.failures,
    )


def _rejected(work: Work, evidence: Evidence, reason: Fact, event_id: str) -> RunEvent:
    """Return the event that is stored in place of a rejected dead letter."""
    mark = evidence.fingerprint
    rejected = RejectedLetter(
        reason=reason.code,
        fingerprint=mark.value,
        fingerprint_reason=mark.reason.encode(),
        title=mark.pattern,
        may_have_executed=int(evidence.failure.may_have_executed),
    )
    return new_event(event_id, work.claim.id, REJECTION_EVENT, work.claim.step_index, rejected.fact())
