"""The event reporter: emits events of recorded changes once they are durable."""

from __future__ import annotations

from asyncio import Future
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.engine.evidence import Evidence
from redrive.engine.in_flight import InFlight
from redrive.engine.recording import AttemptVerdict, final_state
from redrive.engine.signals import Signals
from redrive.engine.work import Work
from redrive.model import event
from redrive.model.caller import SELF
from redrive.model.decision import Decision, Reason, Release, Retry
from redrive.model.failure_group import GroupChange
from redrive.model.id import is_in_order
from redrive.model.run import Place, RunState
from redrive.store.record import Advanced, Completed, Recorded
from redrive.store.replays import LetterChange
from redrive.store.tallies import Tallies

Success = tuple[Work, Completed | Advanced, float, Future[Recorded | None] | None]
"""A success that changes only its run: the work, the change, the duration of the attempt in seconds, and the
future of an executor that waits until the change is durable."""


class EndedRunCounts:
    """Counts the runs that finished since the last heartbeat, by state, for charts.

    The counts are in memory, so recording needs no additional statement. A killed worker loses the counts of
    the last seconds; the runs themselves are not affected. A run that is cancelled before it starts is not
    counted here, but where it is cancelled.
    """

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, str]] = Counter()

    def add(self, org: str, state: str) -> None:
        self._ended[org, state] += 1

    async def write(self, tallies: Tallies) -> None:
        """Write the counts. If that fails, keep them for the next time."""
        ended, self._ended = self._ended, Counter()
        try:
            await tallies.count_ended(ended)
        except BaseException:
            self._ended.update(ended)
            raise


@dataclass(frozen=True, slots=True)
class EventReporter:
    """Emits the events of a record and removes its work from those in flight.

    recorded  the changes made by the record; None: the lease was lost and nothing changed
    heard     whether a listener wants the event, determined once per batch
    """

    event_bus: EventBus
    clock: Clock
    in_flight: InFlight
    signals: Signals
    ended_runs: EndedRunCounts
    finished: Callable[[str, str], None]

    def started(self, work: Work) -> None:
        if self.event_bus.is_subscribed(event.StepStarted):
            self.event_bus.emit(event.StepStarted(work.ref, work.claim.failures))

    def step_succeeded(self, work: Work, seconds: float, recorded: Recorded | None) -> None:
        if recorded is None:
            self.lost(work)
            return
        self.changed_besides(recorded)
        self._step_succeeded(work, seconds, heard=self.event_bus.is_subscribed(event.StepSucceeded))

    def run_succeeded(self, work: Work, seconds: float, recorded: Recorded | None) -> None:
        self.step_succeeded(work, seconds, recorded)
        if recorded is not None:
            state = RunState.SUCCESS if work.is_last_step else RunState.PARTIAL
            self._run_ended(work, state, heard=self.event_bus.is_subscribed(event.RunFinished))

    def succeeded(self, successes: Iterable[Success], recorded: Mapping[str, Recorded]) -> None:
        """Report successes that change only their run. A success missing in `recorded` has lost its lease."""
        heard = self.event_bus.is_subscribed(event.StepSucceeded)
        run_heard = self.event_bus.is_subscribed(event.RunFinished)
        for work, _, seconds, waiting in successes:
            now = recorded.get(work.claim.id)
            if now is None:
                self.lost(work)
            else:
                self._step_succeeded(work, seconds, heard=heard)
                if now.place == Place.ENDED:
                    self._run_ended(work, RunState.SUCCESS, heard=run_heard)
            if waiting is not None and not waiting.done():
                waiting.set_result(now)

    def _step_succeeded(self, work: Work, seconds: float, *, heard: bool) -> None:
        if work.claim.failures:
            self.event_bus.emit(event.StepRecovered(work.ref, seconds, work.claim.failures))
        elif heard:
            self.event_bus.emit(event.StepSucceeded(work.ref, seconds))

    def run_cancelled(self, work: Work, recorded: Recorded | None) -> None:
        if recorded is None:
            self.in_flight.remove(work)
        else:
            self.changed_besides(recorded)
            self._run_ended(work, RunState.CANCELLED)

    def _run_ended(self, work: Work, state: RunState, *, heard: bool = True) -> None:
        self.in_flight.remove(work)
        claim = work.claim
        self.finished(claim.id, state)
        if is_in_order(claim.id):  # the next run of its order key may be ready
            self.signals.ready.set()
        self.ended_runs.add(claim.org, state)
        if heard:
            names = (claim.org, claim.id, claim.workflow, claim.queue, claim.correlation_id)
            seconds = max(0.0, self.clock.now() - claim.submitted_at)
            self.event_bus.emit(event.RunFinished(*names, state, seconds))

    def held(self, work: Work, held_by: str, recorded: Recorded | None) -> None:
        self.in_flight.remove(work)
        if recorded is not None:
            self.event_bus.emit(event.StepHeld(work.ref, held_by))

    def given_back(self, work: Work, recorded: Recorded | None) -> None:
        self.in_flight.remove(work)
        if recorded is not None:
            self.event_bus.emit(event.StepReleased(work.ref, Reason.INTERRUPTED, 0.0))

    def unknown(self, work: Work, recorded: Recorded | None) -> None:
        self.in_flight.remove(work)
        if recorded is not None:
            self.event_bus.emit(event.TaskUnknown(work.ref))

    def abandoned(self, work: Work) -> None:
        self.event_bus.emit(event.TaskAbandoned(work.ref))

    def lost(self, work: Work) -> None:
        self.in_flight.remove(work)
        self.event_bus.emit(event.LeaseLost(work.ref))

    def decided(self, work: Work, verdict: AttemptVerdict, seconds: float, recorded: Recorded | None) -> None:
        if recorded is None:
            self.lost(work)
            return
        self.changed_besides(recorded)
        evidence, decision, _ = verdict
        if isinstance(decision, Retry):
            self._will_retry(work, evidence, decision, seconds)
        elif isinstance(decision, Release):
            self._was_released(work, decision)
        else:
            self._died(work, evidence, decision, seconds, recorded)

    def _died(
        self, work: Work, evidence: Evidence, decision: Decision, seconds: float, recorded: Recorded
    ) -> None:
        state = RunState.FAILED if recorded.letter_id is None else final_state(decision)
        why, letter_id = decision.explanation, recorded.letter_id
        self.event_bus.emit(
            event.StepDied(
                ref=work.ref,
                seconds=seconds,
                failure=evidence.failure,
                explanation=why,
                state=state,
                dlq_id=letter_id,
                where=evidence.where,
            )
        )
        self._run_ended(work, state)

    def _will_retry(self, work: Work, evidence: Evidence, decision: Retry, seconds: float) -> None:
        self.in_flight.remove(work)
        self.signals.due_in(decision.delay)
        why, delay = decision.explanation, decision.delay
        self.event_bus.emit(
            event.RetryScheduled(
                ref=work.ref,
                seconds=seconds,
                failure=evidence.failure,
                explanation=why,
                delay=delay,
                counted=decision.counted,
            )
        )

    def _was_released(self, work: Work, decision: Release) -> None:
        self.in_flight.remove(work)
        delay = max(0.0, decision.at - self.clock.now())
        self.signals.due_in(delay)
        self.event_bus.emit(event.StepReleased(work.ref, decision.explanation.reason, delay))

    def changed_besides(self, recorded: Recorded) -> None:
        """Emit events of the changes besides the run: to a replay, a dead letter or a failure group."""
        if recorded.replays:
            self.signals.replay_ended.set()
        for replay in recorded.replays:
            if not isinstance(replay, LetterChange):
                if self.event_bus.is_subscribed(event.ReplayEnded):
                    self.event_bus.emit(event.ReplayEnded(*replay))
            elif self.event_bus.is_subscribed(event.DeadLetterChanged):
                change = ("REPLAYING", replay.after, replay.by)
                self.event_bus.emit(event.DeadLetterChanged(replay.org, replay.letter_id, *change))
        if recorded.group_change is not None:
            self.event_bus.emit(group_changed(recorded.group_change))


def group_changed(change: GroupChange) -> event.GroupChanged:
    return event.GroupChanged(
        org=change.org, fingerprint=change.fingerprint, before=change.before, after=change.after, by=SELF
    )
