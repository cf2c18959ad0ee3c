"""Failures that happened outside of a worker, recorded like those of attempts, with a dead letter."""

from __future__ import annotations

from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import Evidence
from redrive.engine.recording import AttemptVerdict, failure_record
from redrive.engine.work import Work
from redrive.model.decision import Bury, Explanation, Reason
from redrive.model.event import StepDied
from redrive.model.run import RunState
from redrive.model.step import AttemptOutcome
from redrive.store.record import Record, Recorded


class ReportedFailure:
    """The failure of a run that was stored as failed with one attempt, for the `reason` given."""

    def __init__(self, work: Work, evidence: Evidence, reason: Reason = Reason.REPORTED) -> None:
        self._work = work
        self._evidence = evidence
        self._why = Explanation(
            reason=reason,
            rule=evidence.failure.rule,
            category=str(evidence.failure.category),
            failures=1,
            max_attempts=work.policy.max_attempts,
        )

    def record(self, letter_id: str, letter_policy: DeadLetterPolicy, now: float) -> Record:
        verdict = AttemptVerdict(self._evidence, Bury(self._why), AttemptOutcome.FAILED)
        return failure_record(self._work, verdict, now=now, letter_id=letter_id, letter_policy=letter_policy)

    def emit(self, event_bus: EventBus, recorded: Recorded) -> None:
        """Report the failure, after the transaction."""
        if recorded.group_change is not None:
            event_bus.emit(group_changed(recorded.group_change))
        event_bus.emit(
            StepDied(
                ref=self._work.ref,
                seconds=0.0,
                failure=self._evidence.failure,
                explanation=self._why,
                state=RunState.DLQ_PENDING,
                dlq_id=recorded.letter_id,
                where=self._evidence.where,
            ),
        )
