"""The herald: tells what was written, once it is written, and lets the work land."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.engine.evidence import Evidence
from redrive.engine.outcome import run_state
from redrive.engine.tally import Tally
from redrive.engine.work import Work
from redrive.model import event
from redrive.model.caller import SELF
from redrive.model.decision import Decision, Release, Retry
from redrive.model.failure_group import GroupChange
from redrive.model.run import RunState
from redrive.store.dead_letter_writer import TOO_MANY
from redrive.store.record import UNBURIED, Record
from redrive.store.replays import Resolved, Settled


@dataclass(slots=True)
class EventReporter:
    """`place` says each time where the run lies now; None: the lease was lost, and nothing has changed."""

    event_bus: EventBus
    clock: Clock
    finished: Callable[[str, str], None]
    due_in: Callable[[float], None] = lambda seconds: None
    abstain: Callable[[str, float], None] = lambda workflow, seconds: None
    tally: Tally = field(default_factory=Tally)

    def started(self, work: Work) -> None:
        if self.event_bus.is_subscribed(event.StepStarted):
            self.event_bus.emit(event.StepStarted(work.ref, work.claim.failures))

    def step_succeeded(self, work: Work, seconds: float, place: str | None) -> None:
        if place is None:
            self.lost(work)
        elif work.claim.failures:
            self.event_bus.emit(event.StepRecovered(work.ref, seconds, work.claim.failures))
        elif self.event_bus.is_subscribed(event.StepSucceeded):
            self.event_bus.emit(event.StepSucceeded(work.ref, seconds))

    def run_succeeded(self, work: Work, seconds: float, place: str | None) -> None:
        self.step_succeeded(work, seconds, place)
        self.run_ended(work, RunState.SUCCESS if work.is_last_step else RunState.PARTIAL, place)

    def run_ended(self, work: Work, state: RunState, place: str | None) -> None:
        work.land()
        if place is None:
            return
        claim = work.claim
        self.finished(claim.id, state)
        self.tally.run_ended(claim.org, state)
        if self.event_bus.is_subscribed(event.RunFinished):
            names = (claim.org, claim.id, claim.workflow, claim.queue, claim.correlation_id)
            seconds = max(0.0, self.clock.now() - claim.submitted_at)
            self.event_bus.emit(event.RunFinished(*names, state, seconds))

    def held(self, work: Work, held_by: str, place: str | None) -> None:
        work.land()
        if place is not None:
            self.event_bus.emit(event.StepHeld(work.ref, held_by))

    def unknown(self, work: Work, delay: float) -> None:
        self.abstain(work.claim.workflow, delay)
        self.event_bus.emit(event.TaskUnknown(work.ref, delay))

    def lost(self, work: Work) -> None:
        work.land()
        self.event_bus.emit(event.LeaseLost(work.ref))

    def decided(
        self,
        work: Work,
        evidence: Evidence,
        decision: Decision,
        seconds: float,
        letter: Callable[[], str],
        record: Record,
        place: str | None,
    ) -> None:
        if place is None:
            self.lost(work)
        elif isinstance(decision, Retry):
            self._will_retry(work, evidence, decision, seconds)
        elif isinstance(decision, Release):
            self._was_released(work, decision)
        else:
            self._died(work, evidence, decision, seconds, letter, record, place)

    def _died(
        self,
        work: Work,
        evidence: Evidence,
        decision: Decision,
        seconds: float,
        letter: Callable[[], str],
        record: Record,
        place: str,
    ) -> None:
        buried = record.dead_letter is not None and place != UNBURIED
        state = run_state(decision) if buried else RunState.FAILED
        why, dlq_id = decision.explanation, letter() if buried else None
        self.event_bus.emit(
            event.StepDied(work.ref, seconds, evidence.failure, why, state, dlq_id, evidence.where)
        )
        if place == UNBURIED:
            self.event_bus.emit(event.DeadLetterRefused(work.ref, TOO_MANY))
        self.run_ended(work, state, place)

    def noticed(self, what: Settled | Resolved | GroupChange) -> None:
        """What a record has brought about beside its run."""
        if isinstance(what, GroupChange):
            self.event_bus.emit(event.GroupChanged(what.org, what.fingerprint, what.before, what.after, SELF))
        elif isinstance(what, Resolved):
            change = ("REPLAYING", "RESOLVED", what.by)
            self.event_bus.emit(event.DeadLetterChanged(what.org, what.letter_id, *change))
        else:
            self.event_bus.emit(event.ReplayEnded(*what))

    def _will_retry(self, work: Work, evidence: Evidence, decision: Retry, seconds: float) -> None:
        work.land()
        self.due_in(decision.delay)
        why, delay = decision.explanation, decision.delay
        self.event_bus.emit(
            event.RetryScheduled(work.ref, seconds, evidence.failure, why, delay, decision.counted)
        )

    def _was_released(self, work: Work, decision: Release) -> None:
        work.land()
        delay = max(0.0, decision.at - self.clock.now())
        self.due_in(delay)
        self.event_bus.emit(event.StepReleased(work.ref, decision.explanation.reason, delay))
