"""Events of the engine, named in the past tense, for logs, metrics, traces and your own listeners."""

from __future__ import annotations

from typing import Any, NamedTuple

from redrive.model.decision import Explanation
from redrive.model.failure import Failure
from redrive.model.row import Row


class StepRef(Row, frozen=True):
    """Identifies an attempt of a step of a run."""

    org: str
    run_id: str
    workflow: str
    step_index: int
    step: str
    task: str
    queue: str
    attempt: int
    correlation_id: str


class RunQueued(NamedTuple):
    """A run was stored; a worker will execute it when it is due."""

    org: str
    run_id: str
    workflow: str
    queue: str
    correlation_id: str


class StepStarted(NamedTuple):
    """An attempt of a step started. `failures` counts the failed attempts before it."""

    ref: StepRef
    failures: int


class StepSucceeded(NamedTuple):
    """A step succeeded without counted failures."""

    ref: StepRef
    seconds: float


class StepRecovered(NamedTuple):
    """A step succeeded after failures."""

    ref: StepRef
    seconds: float
    failures: int


class RetryScheduled(NamedTuple):
    """A retry was scheduled. `counted`: the failed attempt counts towards the retry budget."""

    ref: StepRef
    seconds: float
    failure: Failure
    explanation: Explanation
    delay: float
    counted: bool


class StepReleased(NamedTuple):
    """The step was released without counting a failure: interrupted, drained, deferred or lease lost."""

    ref: StepRef
    reason: str
    delay: float


class StepHeld(NamedTuple):
    """The step was put on hold by `held_by`: a breaker or a concurrency limit."""

    ref: StepRef
    held_by: str


class StepDied(NamedTuple):
    """A step failed with no automatic retries left. `dlq_id` is its dead letter, `where` a line of code."""

    ref: StepRef
    seconds: float
    failure: Failure
    explanation: Explanation
    state: str
    dlq_id: str | None
    where: str


class RunFinished(NamedTuple):
    """A run reached the final state `state`. `seconds` is the time since it was submitted."""

    org: str
    run_id: str
    workflow: str
    queue: str
    correlation_id: str
    state: str
    seconds: float


class LeaseLost(NamedTuple):
    """A result came too late: another worker has taken over the step, and nothing was written."""

    ref: StepRef


class TaskUnknown(NamedTuple):
    """No task with this name is registered here; the step waits for a worker that has it."""

    ref: StepRef


class HeldReleased(NamedTuple):
    """A breaker or a limit (`held_by`) released this number of held runs."""

    held_by: str
    runs: int


class BreakerChanged(NamedTuple):
    """A breaker opened, closed or started probing."""

    breaker: str
    before: str
    after: str
    reason: str


class QueuePaused(NamedTuple):
    """A person paused a queue."""

    queue: str
    by: str
    reason: str


class QueueResumed(NamedTuple):
    """A person resumed a queue."""

    queue: str
    by: str


class WorkerStarted(NamedTuple):
    """A worker started to claim runs."""

    worker: str
    queues: tuple[str, ...]
    concurrency: int


class WorkerStopping(NamedTuple):
    """A worker claims nothing more; its `in_flight` steps have `grace` seconds to finish.

    `cause` is the name of the signal, such as SIGTERM; "server" if the server that contains the worker stops;
    "stop" if the application stopped the worker.
    """

    worker: str
    in_flight: int
    grace: float
    cause: str


class WorkerStopped(NamedTuple):
    """A worker stopped and gave `requeued` unfinished steps back."""

    worker: str
    requeued: int


class StoreFailed(NamedTuple):
    """A database operation failed. It is retried after `wait` seconds."""

    doing: str
    error: str
    wait: float


class StoreRecovered(NamedTuple):
    """The database is available again after `seconds`."""

    doing: str
    seconds: float


class StreamFailed(NamedTuple):
    """A consumer of a stream can't read or store. It tries again after `wait` seconds.

    code  what is wrong, such as "redis_unreachable"; `error` says it in a sentence
    """

    org: str
    stream: str
    code: str
    error: str
    wait: float


class StreamRecovered(NamedTuple):
    """A consumer of a stream reads again after `seconds`."""

    org: str
    stream: str
    seconds: float


class StreamGapFound(NamedTuple):
    """Redis removed the entries of a stream between two ids before they were read."""

    org: str
    stream: str
    after: str
    before: str


class ThreadAbandoned(NamedTuple):
    """A sync function is still running after its timeout. Its thread is abandoned and its result ignored."""

    ref: StepRef


class TaskAbandoned(NamedTuple):
    """An async function is still running seconds after it was cancelled. Its result is ignored."""

    ref: StepRef


class TaskStoredSeparately(NamedTuple):
    """A failed task has the id of another live task, so a stand-alone queue stored it under another id."""

    org: str
    queue: str
    task_id: str
    stored_as: str


class DeadLetterChanged(NamedTuple):
    """A dead letter changed its state."""

    org: str
    dlq_id: str
    before: str
    after: str
    by: str


class ReplayRequested(NamedTuple):
    """A replay of a dead letter started; a worker will execute it."""

    org: str
    dlq_id: str
    run_id: str
    mode: str
    by: str


class ReplayEnded(NamedTuple):
    """A replay finished. `state` is SUCCEEDED, FAILED or CANCELLED."""

    org: str
    dlq_id: str
    run_id: str
    state: str


class OperationChanged(NamedTuple):
    """A bulk replay changed its state."""

    org: str
    operation_id: str
    before: str
    after: str
    reason: str


class GroupChanged(NamedTuple):
    """A failure group changed its state."""

    org: str
    fingerprint: str
    before: str
    after: str
    by: str


class ProcessorChanged(NamedTuple):
    """A redrive processor started or stopped."""

    processor: str
    state: str


class AlertRaised(NamedTuple):
    """Figures of the dead letters crossed a threshold; `message` says which."""

    org: str
    queue: str
    alert: str
    message: str


Event = (
    RunQueued
    | StepStarted
    | StepSucceeded
    | StepRecovered
    | RetryScheduled
    | StepReleased
    | StepHeld
    | StepDied
    | RunFinished
    | LeaseLost
    | TaskUnknown
    | HeldReleased
    | BreakerChanged
    | QueuePaused
    | QueueResumed
    | WorkerStarted
    | WorkerStopping
    | WorkerStopped
    | StoreFailed
    | StoreRecovered
    | StreamFailed
    | StreamRecovered
    | StreamGapFound
    | ThreadAbandoned
    | TaskAbandoned
    | TaskStoredSeparately
    | DeadLetterChanged
    | ReplayRequested
    | ReplayEnded
    | OperationChanged
    | GroupChanged
    | ProcessorChanged
    | AlertRaised
)

_NAMES: dict[type, str] = {
    RunQueued: "run.queued",
    StepStarted: "step.started",
    StepSucceeded: "step.succeeded",
    StepRecovered: "step.recovered",
    RetryScheduled: "step.retry_scheduled",
    StepReleased: "step.released",
    StepHeld: "step.held",
    StepDied: "step.died",
    RunFinished: "run.finished",
    LeaseLost: "step.lease_lost",
    TaskUnknown: "task.unknown",
    HeldReleased: "held.released",
    BreakerChanged: "breaker.changed",
    QueuePaused: "queue.paused",
    QueueResumed: "queue.resumed",
    WorkerStarted: "worker.started",
    WorkerStopping: "worker.stopping",
    WorkerStopped: "worker.stopped",
    StoreFailed: "store.failed",
    StoreRecovered: "store.recovered",
    StreamFailed: "stream.failed",
    StreamRecovered: "stream.recovered",
    StreamGapFound: "stream.gap_found",
    ThreadAbandoned: "thread.abandoned",
    TaskAbandoned: "task.abandoned",
    TaskStoredSeparately: "task.stored_separately",
    DeadLetterChanged: "dead_letter.changed",
    ReplayRequested: "replay.requested",
    ReplayEnded: "replay.ended",
    OperationChanged: "operation.changed",
    GroupChanged: "group.changed",
    ProcessorChanged: "processor.changed",
    AlertRaised: "alert.raised",
}


def name_of(event: Event) -> str:
    return _NAMES[type(event)]


def fields_of(event: Event) -> dict[str, Any]:
    """Return the event as flat fields, with the field names used in all logs."""
    fields: dict[str, Any] = {"event": name_of(event)}
    for name, value in event._asdict().items():
        if isinstance(value, StepRef):
            fields |= {_FIELD_NAMES.get(key, key): part for key, part in value.asdict().items()}
        elif isinstance(value, Failure):
            fields |= _failure_fields(value)
        elif isinstance(value, Explanation):
            fields["reason"] = str(value.reason)
        else:
            fields[_FIELD_NAMES.get(name, name)] = _milliseconds(name, value)
    return {name: value for name, value in fields.items() if value is not None}


_FIELD_NAMES = {
    "seconds": "duration_ms",
    "delay": "delay_ms",
    "wait": "wait_ms",
    "org": "org_id",
    "grace": "grace_ms",
}


def _milliseconds(name: str, value: Any) -> Any:
    return round(value * 1000, 1) if name in ("seconds", "delay", "wait", "grace") else value


def _failure_fields(failure: Failure) -> dict[str, Any]:
    return {
        "category": str(failure.category),
        "error_class": str(failure.error_class),
        "error_code": failure.public_code,
        "retryable": failure.retryable,
        "http_status": failure.http_status,
        "rule": failure.rule,
        "error": f"{failure.error_type}: {failure.message}",
    }
