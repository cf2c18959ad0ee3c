"""The story of a run: its steps, attempts and events, put together from what was written anyway."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.errors import SealedError
from redrive.model.decision import Reason
from redrive.model.field import Instant
from redrive.model.replay import Mode, Replay
from redrive.model.run import Run, RunEvent, RunState
from redrive.model.step import AttemptOutcome, AttemptRecord, FinishedStep, StepState
from redrive.policy.codec import JsonValue, decode
from redrive.policy.retry import RetryPolicy
from redrive.store.dead_letter_writer import RejectedLetter
from redrive.store.record import UNBURIED
from redrive.store.store import Store

if TYPE_CHECKING:
    from redrive.engine.definition import Definition, Definitions, StepDefinition

MAX_READINGS = 10


class Step(NamedTuple):
    """One position of a run, with all that is known about it."""

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


class Happening(NamedTuple):
    """Something that happened to the run. `what` is queued, started, retry, held, succeeded, finished, ..."""

    at: Instant
    what: str
    step: str | None
    attempt: int | None
    detail: str
    step_index: int = -1


class History(NamedTuple):
    run: Run
    steps: list[Step]
    attempts: list[AttemptRecord]
    events: list[Happening]


class _Records(NamedTuple):
    """What was written about a run."""

    run: Run
    steps: list[FinishedStep]
    attempts: list[AttemptRecord]
    events: list[RunEvent]
    replays: list[Replay]


async def history_of(
    run: Run, store: Store, definitions: Definitions, encryption: Encryption = NO_ENCRYPTION
) -> History:
    """What is encrypted with a key that is not configured here is shown as it is stored."""
    records = await _of_one_moment(run, store)
    definition = await definitions.get(records.run.definition)
    finished = {
        step.step_index: step.replace(output=_opened(step.output, encryption)) for step in records.steps
    }
    failed = [each.replace(output=_opened(each.output, encryption)) for each in records.attempts]
    run = records.run.replace(result=_opened(records.run.result, encryption))
    attempts = _one_after_the_other([*failed, *_successes(run, definition, finished)])
    steps = [
        _step(index, step, run, finished.get(index), attempts) for index, step in enumerate(definition.steps)
    ]
    told = [_told(event, definition) for event in records.events]
    if records.replays:
        attempts = [each if each.replay else _attributed(each, records.replays) for each in attempts]
        told += [_replayed(each, definition) for each in records.replays]
    begun = _begun(run, definition, attempts)
    events = sorted([*_from_run(run), *_from_attempts(definition, attempts), *begun, *told], key=_order)
    return History(run, steps, attempts, events)


async def _of_one_moment(run: Run, store: Store) -> _Records:
    """A worker may go on with it while its records are read: what it does to steps and attempts changes the
    run as well, which tells that they have to be read again."""
    records = await _read(run, store)
    for _ in range(MAX_READINGS):
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


def _opened(text: str | None, encryption: Encryption) -> str | None:
    try:
        return None if text is None else encryption.decrypt(text)
    except SealedError:
        return text


def _told(event: RunEvent, definition: Definition) -> Happening:
    name = definition.steps[event.step_index].name
    unburied = RejectedLetter.read(event.detail) if event.kind == UNBURIED else None
    detail = event.detail if unburied is None else unburied.reason
    return Happening(event.at, event.kind, name, None, detail, event.step_index)


def _attributed(attempt: AttemptRecord, replays: Sequence[Replay]) -> AttemptRecord:
    """A success does not tell its replay: it is the last one that went through its step before it."""
    if attempt.outcome != AttemptOutcome.SUCCEEDED or attempt.output is not None:
        return attempt
    index, started = attempt.step_index, attempt.started_at or 0.0
    through = [
        each.number or 0
        for each in replays
        if (each.started_at or 0.0) <= started
        and (each.from_step == index or (each.from_step < index and each.mode == Mode.FROM_STEP))
    ]
    return attempt.replace(replay=max(through, default=0))


def _replayed(replay: Replay, definition: Definition) -> Happening:
    name = definition.steps[replay.from_step].name
    why = f": {replay.reason}" if replay.reason else ""
    detail = f"by {replay.requested_by}, {replay.mode}{why}"
    return Happening(
        replay.started_at or replay.requested_at, "replayed", name, None, detail, replay.from_step
    )


def _order(happening: Happening) -> tuple[float, bool, int, int, bool]:
    """By time; in one and the same moment by step and attempt, and what ends the run last."""
    what = happening.what
    return happening.at, what == "finished", happening.step_index, happening.attempt or 0, what != "started"


def _one_after_the_other(attempts: list[AttemptRecord]) -> list[AttemptRecord]:
    """A step that goes on in place starts, by the worker's clock, before the one before it is written."""
    ordered = sorted(attempts, key=lambda each: (each.step_index, each.number))
    ends = _ends(ordered)
    return [
        each
        if each.started_at is None
        else each.replace(started_at=_after(ends, each.step_index, each.started_at, each.ended_at))
        for each in ordered
    ]


def _ends(attempts: list[AttemptRecord]) -> dict[int, list[float]]:
    """When the attempts of each step ended, one after the other."""
    ends: dict[int, list[float]] = {}
    for each in attempts:
        if each.ended_at is not None:
            ends.setdefault(each.step_index, []).append(each.ended_at)
    return {index: sorted(several) for index, several in ends.items()}


def _after(ends: dict[int, list[float]], index: int, started: float, ended: float | None) -> float:
    """Not before the end of the step before it; what a replay has executed there later does not count."""
    before = ends.get(index - 1, [])
    last = len(before) if ended is None else bisect_right(before, ended)
    return max(started, before[last - 1]) if last else started


def _successes(run: Run, definition: Definition, finished: dict[int, FinishedStep]) -> list[AttemptRecord]:
    """The attempts that succeeded are not written a second time: the finished step is their record."""
    made = [
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
        made.append(
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
    return made


def _success(run: Run, **fields: Any) -> AttemptRecord:
    """A successful attempt: it has no row of its own, its step or run tells of it."""
    return AttemptRecord(
        run_id=run.id,
        outcome=AttemptOutcome.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        explanation="the attempt succeeded",
        **fields,
    )


def _step(
    index: int, step: StepDefinition, run: Run, finished: FinishedStep | None, attempts: list[AttemptRecord]
) -> Step:
    own = [each for each in attempts if each.step_index == index]
    failed = [each for each in own if each.outcome == AttemptOutcome.FAILED]
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
        next_retry_at=run.due_at if current else None,
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


def _from_run(run: Run) -> list[Happening]:
    happened = [Happening(run.submitted_at, "queued", None, None, "")]
    if run.cancel_requested_at is not None:
        happened.append(Happening(run.cancel_requested_at, "cancel requested", None, None, ""))
    if run.ended_at is not None:
        happened.append(Happening(run.ended_at, "finished", None, None, run.state))
    return happened


def _begun(run: Run, definition: Definition, attempts: list[AttemptRecord]) -> list[Happening]:
    """What is being executed is no record of an attempt yet; it is told as it will be told then."""
    if run.place != "leased" or run.attempt_started_at is None:
        return []
    index, worker = run.step_index, f"by {run.worker}"
    at = _after(_ends(attempts), index, run.attempt_started_at, None)
    return [Happening(at, "started", definition.steps[index].name, run.attempt, worker, index)]


def _from_attempts(definition: Definition, attempts: list[AttemptRecord]) -> list[Happening]:
    happened = []
    for each in attempts:
        index, name, number = each.step_index, definition.steps[each.step_index].name, each.number
        if each.started_at is not None:
            happened.append(Happening(each.started_at, "started", name, number, f"by {each.worker}", index))
        if each.ended_at is not None:
            will_retry = each.delay is not None and each.outcome == AttemptOutcome.FAILED
            what = "retry" if will_retry else str(each.outcome)
            happened.append(Happening(each.ended_at, what, name, number, each.explanation, index))
    return happened
