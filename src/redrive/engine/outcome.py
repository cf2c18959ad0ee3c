"""From a decision to the record of it: which rows change, and what is written beside them."""

from __future__ import annotations

from redrive.engine.context import step_key
from redrive.engine.dead_letter_policy import DeadLetterPolicy, with_tags
from redrive.engine.definition import StepDefinition
from redrive.engine.evidence import Evidence, evidence_of_loss, evidence_without_error
from redrive.engine.work import Work
from redrive.errors import NotStorableError
from redrive.model.attempt import AttemptOutcome, AttemptRecord
from redrive.model.claim import Claim, Isolation
from redrive.model.decision import Block, Bury, Decision, Explanation, Fail, Reason, Release, Retry
from redrive.model.failure import Category, ErrorClass
from redrive.model.replay import ReplayState
from redrive.model.run import Place, RunEvent, RunState
from redrive.model.step import FinishedStep, StepState
from redrive.policy.codec import JsonValue, decode, encode, storable
from redrive.policy.redact import Redactor
from redrive.store.dead_letter_writer import RejectedLetter
from redrive.store.record import (
    UNBURIED,
    Advanced,
    Completed,
    CompletedPartly,
    NewDeadLetter,
    Parked,
    Record,
    Rescheduled,
    Stopped,
)
from redrive.store.replays import Settlement

_ENDINGS = {
    Bury: (RunState.DLQ_PENDING, StepState.DLQ),
    Block: (RunState.DLQ_PENDING, StepState.BLOCKED),
    Fail: (RunState.FAILED, StepState.FAILED),
}


def run_state(decision: Decision) -> RunState:
    return _ENDINGS[type(decision)][0]


def completed(work: Work, result: str) -> Record:
    claim = work.claim
    change = Completed(id=claim.id, token=claim.token, epoch=claim.epoch, result=result)
    step = finished_step(work, result) if len(work.definition.steps) > 1 else None
    settlement = _settlement(claim, ReplayState.SUCCEEDED)
    return Record(change, step=step, settlement=settlement, limited=work.slots is not None)


def completed_partly(work: Work, result: str) -> Record:
    """The step was replayed alone, and has others after it."""
    claim = work.claim
    change = CompletedPartly(claim.id, claim.token, claim.epoch)
    settlement = _settlement(claim, ReplayState.SUCCEEDED)
    limited = work.slots is not None
    return Record(change, step=finished_step(work, result), settlement=settlement, limited=limited)


def advanced(work: Work, output: str, following: StepDefinition, *, ttl: float, in_place: bool) -> Record:
    claim = work.claim
    change = Advanced(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        step_input=output,
        queue=next_queue(work, following),
        in_place=in_place,
        ttl=ttl,
    )
    settlement = _settlement(claim, None)
    limited = work.slots is not None
    return Record(change, step=finished_step(work, output), settlement=settlement, limited=limited)


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


def next_queue(work: Work, following: StepDefinition) -> str:
    """That of the next task; a run that was started elsewhere stays there while its tasks share one."""
    return work.claim.queue if following.queue == work.step.queue else following.queue


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


def next_claim(claim: Claim, output: str, queue: str, now: float) -> Claim:
    """The claim of the next step under the same lease, as `advanced` has written it."""
    return claim.replace(
        step_index=claim.step_index + 1,
        step_input=output,
        queue=queue,
        attempt=1,
        epoch=claim.epoch + 1,
        failures=0,
        rate_limit_waits=0,
        holds=0,
        losses=0,
        isolated_crashes=0,
        isolation=Isolation.NONE,
        previous_delay=None,
        attempt_started_at=now,
        slots=None,
        policy_override=None,
        redrives=0,
    )


def decided(
    work: Work,
    evidence: Evidence,
    decision: Decision,
    outcome: AttemptOutcome,
    *,
    now: float,
    letter_id: str,
    letter_policy: DeadLetterPolicy,
) -> Record:
    """The record of an attempt that did not succeed."""
    if isinstance(decision, Retry | Release):
        delay = decision.delay if isinstance(decision, Retry) else max(0.0, decision.at - now)
        again = rescheduled(work.claim, decision, evidence, delay)
        row = attempt_row(work.claim, evidence, decision.explanation, outcome, delay)
        return Record(again, row, limited=work.slots is not None)
    attempt = attempt_row(work.claim, evidence, decision.explanation, outcome, None)
    why, limited, mark = decision.explanation, work.slots is not None, evidence.fingerprint
    note = f"failed in step {work.step.name}: {mark.title}"
    settlement = _settlement(work.claim, ReplayState.FAILED, mark.value, note)
    if refusal := letter_policy.refusal(work, evidence.failure):
        change = _stopped(work.claim, RunState.FAILED, StepState.FAILED, evidence, why)
        told = RejectedLetter(
            reason=refusal,
            fingerprint=mark.value,
            fingerprint_reason=mark.reason,
            title=mark.title,
            may_have_executed=int(evidence.failure.may_have_executed),
        )
        event = RunEvent(
            id=letter_id,
            run_id=work.claim.id,
            kind=UNBURIED,
            step_index=work.claim.step_index,
            detail=str(told),
        )
        return Record(change, attempt, event=event, settlement=settlement, limited=limited)
    letter = dead_letter_row(work, evidence, why, letter_id, letter_policy)
    change = _stopped(work.claim, *_ENDINGS[type(decision)], evidence, why)
    return Record(change, attempt, dead_letter=letter, settlement=settlement, limited=limited)


def lost_row(claim: Claim, delay: float) -> AttemptRecord:
    """Of an attempt whose worker has let its lease expire, before anything else is known about the run."""
    evidence = evidence_of_loss(claim.worker, step="")
    return attempt_row(claim, evidence, Explanation(Reason.LEASE_LOST), AttemptOutcome.LOST, delay)


def cancelled(claim: Claim, step: str, *, limited: bool) -> Record:
    evidence = evidence_without_error(
        Category.CANCELLED, ErrorClass.FINAL, "cancelled", "the run was cancelled", step=step
    )
    row = attempt_row(claim, evidence, Explanation(Reason.CANCELLED), AttemptOutcome.CANCELLED, None)
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
    settlement = _settlement(claim, ReplayState.CANCELLED, note="the run was cancelled")
    return Record(change, row, settlement=settlement, limited=limited)


def parked(work: Work, held_by: str, event: RunEvent | None) -> Record:
    """Waits for a breaker are counted, and told in the history; those for a limit are not."""
    claim = work.claim
    state = StepState.RETRYING if claim.failures else StepState.PENDING
    holds = claim.holds + (0 if event is None else 1)
    return Record(
        Parked(
            id=claim.id, token=claim.token, epoch=claim.epoch, held_by=held_by, step_state=state, holds=holds
        ),
        event=event,
    )


def rescheduled(claim: Claim, decision: Retry | Release, evidence: Evidence, delay: float) -> Rescheduled:
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
        explanation=str(why),
        replay=claim.replays,
    )


def dead_letter_row(
    work: Work, evidence: Evidence, why: Explanation, letter_id: str, letter_policy: DeadLetterPolicy
) -> NewDeadLetter:
    failure, mark, redactor = evidence.failure, evidence.fingerprint, letter_policy.redactor
    handling = letter_policy.handling(work, evidence.failure)
    redriving = handling.redriving
    return NewDeadLetter(
        id=letter_id,
        org=work.claim.org,
        run_id=work.claim.id,
        workflow=work.claim.workflow,
        step=work.step.name,
        task=work.step.task,
        category=failure.category,
        error_class=failure.error_class,
        error_type=failure.error_type,
        message=failure.message,
        stack=evidence.stack,
        http_status=failure.http_status,
        public_code=failure.public_code,
        public_message=failure.public_message,
        reason=why.reason,
        explanation=str(why),
        fingerprint=mark.value,
        fingerprint_reason=mark.reason,
        title=mark.title,
        payload=snapshot(_payload_of(work), redactor),
        config=snapshot(work.step.config, redactor),
        policy=work.policy_text,
        idempotency_key=_redacted_name(step_key(work.claim), work.claim.id, redactor),
        correlation_id=_redacted_name(work.claim.correlation_id, work.claim.id, redactor),
        tags=_snapshot_of_text(with_tags(work.claim.tags, handling.tags), redactor),
        metadata=_snapshot_of_text(_metadata_of(work), redactor),
        effect=work.step.effect,
        may_have_executed=failure.may_have_executed,
        breaker=work.step.breaker,
        code_version=work.claim.code_version,
        assignee=handling.owner,
        template=handling.template,
        runbook=handling.runbook,
        state=redriving.state,
        redrive=redriving.name,
        redrive_policy=redriving.policy,
        redrives=redriving.redrives,
        max_redrives=redriving.max_redrives,
        redrive_delay=redriving.delay,
    )


def _redacted_name(name: str, run_id: str, redactor: Redactor) -> str:
    """Users choose keys out of anything; what begins with the id of the run was made here."""
    return name if name.startswith(run_id) else redactor.text(name)


def _snapshot_of_text(text: str | None, redactor: Redactor) -> str | None:
    if text is None:
        return None
    try:
        return snapshot(decode(text), redactor)
    except NotStorableError:
        return snapshot(text, redactor)


def snapshot(value: JsonValue, redactor: Redactor) -> str:
    """The value as it may be kept in a dead letter: without its secrets (W14)."""
    redacted = redactor.value(value)
    try:
        return encode(redacted)
    except NotStorableError:
        return encode(storable(redacted))


def _payload_of(work: Work) -> JsonValue:
    try:
        return work.payload
    except Exception:  # noqa: BLE001 — a payload that cannot be read may be the very reason
        return work.claim.payload


def _metadata_of(work: Work) -> str | None:
    try:
        return work.opened.metadata
    except NotStorableError:
        return work.claim.metadata


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


def _place(delay: float, isolation: Isolation) -> Place:
    if delay > 0.0:
        return Place.WAITING
    return Place.ALONE if isolation else Place.READY
