"""The history of a run: its steps, attempts and events, assembled from the stored records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.errors import SealedError
from redrive.model.alias import JOB_EVENTS, JOB_EVENTS_AT_THE_END
from redrive.model.decision import DecisionFacts, Reason
from redrive.model.fact import Fact, fact
from redrive.model.field import Instant
from redrive.model.replay import Mode, Replay
from redrive.model.run import Run, RunEvent, RunState
from redrive.model.step import AttemptOutcome, AttemptRecord, FinishedStep, StepState
from redrive.policy.codec import JsonValue, decode
from redrive.policy.retry import RetryPolicy
from redrive.store.dead_letter_writer import LETTER_REJECTED, RejectedLetter
from redrive.store.record import REJECTION_EVENT
from redrive.store.store import Store

if TYPE_CHECKING:
    from redrive.engine.definition import Definition, Definitions, StepDefinition

MAX_READS = 10
_SUCCEEDED = DecisionFacts(Reason.SUCCEEDED.value)


class Step(NamedTuple):
    """One step of a run: its definition, its state and its results."""

    step_index: int
    name: str
    task: str
    state: StepState
    attempt_count: int
    max_retries: int
    retry_policy: RetryPolicy
    retry_policy_override: str | None
    config: JsonValue
    output: JsonValue
    next_retry_at: Instant | None
    error_class: str | None
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    error_stack: str | None
    correlation_id: str
    started_at: Instant | None
    ended_at: Instant | None


class TimelineEvent(NamedTuple):
    """An event in the timeline of a run. `what` is queued, started, retry, held, succeeded, finished, ...

    ended_run  whether the run ended with this failed attempt, until a replay continued it
    """

    at: Instant
    what: str
    step: str | None
    attempt: int | None
    detail: Fact | None
    step_index: int = -1
    ended_run: bool = False

    @property
    def job_event(self) -> str | None:
        """The event in the words of a job queue: queued, processing, retry, complete or failed."""
        if self.what == "finished" and self.detail is not None:
            return JOB_EVENTS_AT_THE_END.get(str(self.detail.fields["state"]))
        return "failed" if self.ended_run else JOB_EVENTS.get(self.what)


class History(NamedTuple):
    run: Run
    steps: list[Step]
    attempts: list[AttemptRecord]
    events: list[TimelineEvent]


class _Records(NamedTuple):
    """The stored records of a run."""

    run: Run
    steps: list[FinishedStep]
    attempts: list[AttemptRecord]
    events: list[RunEvent]
    replays: list[Replay]


async def history_of(
    run: Run, store: Store, definitions: Definitions, encryption: Encryption = NO_ENCRYPTION
) -> History:
    """Assemble the history of a run. Values that no configured key can decrypt are returned encrypted."""
    records = await _consistent_records(run, store)
    definition = await definitions.get(records.run.definition)
    finished = {
        step.step_index: step.replace(output=_decrypted(step.output, encryption)) for step in records.steps
    }
    recorded = [
        attempt.replace(output=_decrypted(attempt.output, encryption)) for attempt in records.attempts
    ]
    run = records.run.replace(
        result=_decrypted(records.run.result, encryption), worker=records.run.current_worker
    )
    attempts = _without_overlaps([*recorded, *_successes(run, definition, finished)])
    steps = [
        _step(index, step, run, finished.get(index), attempts) for index, step in enumerate(definition.steps)
    ]
    stored = [_stored_event(event, definition) for event in records.events]
    if records.replays:
        attempts = [
            attempt if attempt.replay else _with_replay(attempt, records.replays) for attempt in attempts
        ]
        stored += [_replay_event(replay, definition) for replay in records.replays]
    current = _current_attempt(run, definition, attempts)
    events = sorted([*_from_run(run), *_from_attempts(definition, attempts), *current, *stored], key=_order)
    return History(run, steps, attempts, _with_earlier_ends(events))


async def _consistent_records(run: Run, store: Store) -> _Records:
    """Read the records, again if the run changed in the meantime.

    A worker may write steps and attempts during the read. Each of these writes also changes the run.
    """
    records = await _read(run, store)
    for _ in range(MAX_READS):
        now = await store.runs.get(run.id, run.org)
        if now == records.run:
            break
        records = await _read(now, store)
    return records


async def _read(run: Run, store: Store) -> _Records:
    return _Records(
        run,
        await store.runs.steps(run.id, run.org),
        await store.runs.attempts(run.id, run.org),
        await store.runs.events(run.id, run.org),
        await store.replays.of_run(run.id, run.org) if run.replays else [],
    )


def _decrypted(text: str | None, encryption: Encryption) -> str | None:
    try:
        return None if text is None else encryption.decrypt(text)
    except SealedError:
        return text


def _stored_event(event: RunEvent, definition: Definition) -> TimelineEvent:
    name = definition.steps[event.step_index].name
    rejected = RejectedLetter.read(event.detail) if event.kind == REJECTION_EVENT else None
    detail = event.detail if rejected is None else fact(LETTER_REJECTED, reason=rejected.reason)
    return TimelineEvent(event.at, event.kind, name, None, detail, event.step_index)


def _with_replay(attempt: AttemptRecord, replays: Sequence[Replay]) -> AttemptRecord:
    """Derive the replay of a successful attempt: the last replay that reached its step before it started."""
    if attempt.outcome != AttemptOutcome.SUCCEEDED or attempt.output is not None:
        return attempt
    index, started = attempt.step_index, attempt.started_at or 0.0
    through = [
        replay.number or 0
        for replay in replays
        if (replay.started_at or 0.0) <= started
        and (replay.from_step == index or (replay.from_step < index and replay.mode == Mode.FROM_STEP))
    ]
    return attempt.replace(replay=max(through, default=0))


def _replay_event(replay: Replay, definition: Definition) -> TimelineEvent:
    name = definition.steps[replay.from_step].name
    detail = fact("replay_started", by=replay.requested_by, mode=str(replay.mode), reason=replay.reason)
    return TimelineEvent(
        replay.started_at or replay.requested_at, "replayed", name, None, detail, replay.from_step
    )


def _with_earlier_ends(events: list[TimelineEvent]) -> list[TimelineEvent]:
    """Mark the failures with which the run ended before each replay: the row has only its last end."""
    marked, last_failure = list(events), None
    for position, event in enumerate(events):
        if event.what == "failed":
            last_failure = position
        elif event.what in ("started", "replayed"):
            if event.what == "replayed" and last_failure is not None:
                marked[last_failure] = events[last_failure]._replace(ended_run=True)
            last_failure = None
    return marked


def _order(event: TimelineEvent) -> tuple[float, bool, int, int, bool]:
    """Sort by time; at the same time by step and attempt, with the end of the run last."""
    what = event.what
    return event.at, what == "finished", event.step_index, event.attempt or 0, what != "started"


def _without_overlaps(attempts: list[AttemptRecord]) -> list[AttemptRecord]:
    """Move starts behind the end of the previous step.

    A step that runs under the same lease as the previous one starts, by the worker's clock, before the
    previous step is recorded.
    """
    ordered = sorted(attempts, key=lambda attempt: (attempt.step_index, attempt.number))
    ends = _ends(ordered)
    return [
        attempt
        if attempt.started_at is None
        else attempt.replace(
            started_at=_after(ends, attempt.step_index, attempt.started_at, attempt.ended_at)
        )
        for attempt in ordered
    ]


def _ends(attempts: list[AttemptRecord]) -> dict[int, list[float]]:
    """Return the ends of the attempts of each step, in order."""
    ends: dict[int, list[float]] = {}
    for attempt in attempts:
        if attempt.ended_at is not None:
            ends.setdefault(attempt.step_index, []).append(attempt.ended_at)
    return {index: sorted(moments) for index, moments in ends.items()}


def _after(ends: dict[int, list[float]], index: int, started: float, ended: float | None) -> float:
    """Return the start, but not before the previous step ended. Later replays of that step do not count."""
    before = ends.get(index - 1, [])
    last = len(before) if ended is None else bisect_right(before, ended)
    return max(started, before[last - 1]) if last else started


def _successes(run: Run, definition: Definition, finished: dict[int, FinishedStep]) -> list[AttemptRecord]:
    """Return the successful attempts: they have no rows, because finished steps and runs record them."""
    successes = [
        _success(
            run,
            step_index=step.step_index,
            number=step.attempts,
            worker=step.worker,
            code_version=step.code_version,
            started_at=step.started_at,
            ended_at=step.ended_at,
        )
        for step in finished.values()
        if step.state == StepState.SUCCESS
    ]
    if run.state == RunState.SUCCESS and run.step_index not in finished:
        successes.append(
            _success(
                run,
                step_index=run.step_index,
                number=run.attempt,
                worker=run.worker,
                code_version=run.code_version,
                started_at=run.attempt_started_at,
                ended_at=run.ended_at,
            )
        )
    return successes


def _success(run: Run, **fields: Any) -> AttemptRecord:
    return AttemptRecord(
        run_id=run.id,
        outcome=AttemptOutcome.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        decision=_SUCCEEDED,
        **fields,
    )


def _step(
    index: int, step: StepDefinition, run: Run, finished: FinishedStep | None, attempts: list[AttemptRecord]
) -> Step:
    own = [attempt for attempt in attempts if attempt.step_index == index]
    failed = [attempt for attempt in own if attempt.outcome == AttemptOutcome.FAILED]
    current = index == run.step_index
    return Step(
        step_index=index,
        name=step.name,
        task=step.task,
        state=_state(index, run, finished),
        attempt_count=run.attempt if current else (finished.attempts if finished else 0),
        max_retries=step.retry.max_retries,
        retry_policy=step.retry,
        retry_policy_override=run.policy_override if current else None,
        config=step.config,
        output=_output(index, run, finished),
        next_retry_at=run.due_at if current and run.step_state == StepState.RETRYING else None,
        error_class=run.error_class if current else None,
        first_failed_at=failed[0].ended_at if failed else None,
        last_failed_at=failed[-1].ended_at if failed else None,
        error_stack=failed[-1].stack if failed else None,
        correlation_id=run.correlation_id,
        started_at=own[0].started_at if own else None,
        ended_at=finished.ended_at if finished else (run.ended_at if current else None),
    )


def _state(index: int, run: Run, finished: FinishedStep | None) -> StepState:
    if index == run.step_index:
        return StepState(run.step_state)
    if finished is not None:
        return StepState(finished.state)
    return StepState.CANCELLED if run.state == RunState.CANCELLED else StepState.PENDING


def _output(index: int, run: Run, finished: FinishedStep | None) -> JsonValue:
    if finished is not None:
        return None if finished.output is None else decode(finished.output)
    if index == run.step_index and run.result is not None:
        return decode(run.result)
    return None


def _from_run(run: Run) -> list[TimelineEvent]:
    events = [TimelineEvent(run.submitted_at, "queued", None, None, None)]
    if run.cancel_requested_at is not None:
        events.append(TimelineEvent(run.cancel_requested_at, "cancel requested", None, None, None))
    if run.ended_at is not None:
        state = fact("run_ended", state=str(run.state))
        events.append(TimelineEvent(run.ended_at, "finished", None, None, state))
    return events


def _current_attempt(run: Run, definition: Definition, attempts: list[AttemptRecord]) -> list[TimelineEvent]:
    """Return the start of the attempt in progress, which has no record yet."""
    if run.place != "leased" or run.attempt_started_at is None:
        return []
    index, worker = run.step_index, fact("executed_by", worker=run.worker)
    at = _after(_ends(attempts), index, run.attempt_started_at, None)
    return [TimelineEvent(at, "started", definition.steps[index].name, run.attempt, worker, index)]


def _from_attempts(definition: Definition, attempts: list[AttemptRecord]) -> list[TimelineEvent]:
    events = []
    for attempt in attempts:
        index, number = attempt.step_index, attempt.number
        name = definition.steps[index].name
        if attempt.started_at is not None:
            worker = fact("executed_by", worker=attempt.worker)
            events.append(TimelineEvent(attempt.started_at, "started", name, number, worker, index))
        if attempt.ended_at is not None:
            will_retry = attempt.delay is not None and attempt.outcome == AttemptOutcome.FAILED
            what = "retry" if will_retry else str(attempt.outcome)
            why = fact("decided", decision=attempt.decision)
            events.append(TimelineEvent(attempt.ended_at, what, name, number, why, index))
    return events
