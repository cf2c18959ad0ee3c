"""A run: one execution of a workflow. A job is a run with one step."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from redrive.model.fact import Fact, StoredFact
from redrive.model.failure import ErrorClass
from redrive.model.field import Instant, JsonList, RunId
from redrive.model.row import Row
from redrive.model.step import StepState
from redrive.model.transition import TransitionTable, moves


class RunState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    DLQ_PENDING = "DLQ_PENDING"
    CANCELLED = "CANCELLED"


LIVE_RUNS = (RunState.PENDING, RunState.RUNNING)
FAILED_RUNS = (RunState.FAILED, RunState.PARTIAL, RunState.DLQ_PENDING)
ENDED_RUNS = (RunState.SUCCESS, *FAILED_RUNS, RunState.CANCELLED)


class RunPosition(StrEnum):
    """A more precise position of a run than its state, for queries.

    ready, waiting, held, executing   what the run is doing now
    retrying                          its step failed and will be retried
    parked                            it waits for an earlier run with the same order key; also waiting
    replaying                         it had finished and is being replayed
    blocked                           it finished because its step is BLOCKED
    """

    READY = "ready"
    WAITING = "waiting"
    HELD = "held"
    EXECUTING = "executing"
    RETRYING = "retrying"
    PARKED = "parked"
    REPLAYING = "replaying"
    BLOCKED = "blocked"


class Place(StrEnum):
    """Where a run is stored. Workers claim from `ready` only; the other places are not in that index."""

    READY = "ready"
    WAITING = "waiting"
    HELD = "held"
    ALONE = "alone"
    LEASED = "leased"
    ENDED = "ended"


HELD_BY_TASK, HELD_BY_WORKFLOW = "task:", "workflow:"
"""The prefixes of what holds a run that no worker knows; the name of the task or the workflow follows."""
UNKNOWN_TASK = "UNKNOWN_TASK"
"""The state that people see of such a run."""


HELD_BY_ORDER = "order:"
"""The prefix of what holds a run that waits for an earlier run with the same order key; the key follows."""


def is_unknown(held_by: str | None) -> bool:
    """Return whether a run is held because no worker knows its task or its workflow."""
    return held_by is not None and held_by.startswith((HELD_BY_TASK, HELD_BY_WORKFLOW))


def is_parked(held_by: str | None) -> bool:
    """Return whether a run waits for an earlier run with the same order key."""
    return held_by is not None and held_by.startswith(HELD_BY_ORDER)


class Cancellation(StrEnum):
    """The outcome of a cancellation. `REQUESTED`: the run is in progress, and its worker will be notified."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    ENDED = "ended"


class AfterFailure(StrEnum):
    """What the later runs of an order key do when a run becomes a dead letter."""

    WAIT = "wait"
    PROCEED = "proceed"


class NewRun(Row, frozen=True):
    """A run to store. It is due `delay` seconds after it is stored, or at the instant `at`.

    A run with an order key needs an id from `Ids.new_in_order`.
    """

    id: RunId
    org: str
    workflow: str
    definition: str
    queue: str
    priority: int
    delay: float
    at: Instant | None
    input: str
    idempotency_key: str | None
    request_hash: str | None
    correlation_id: str
    tags: JsonList | None
    metadata: str | None
    owner: str | None = None
    order_key: str | None = None
    after_failure: AfterFailure = AfterFailure.WAIT

    @property
    def given_correlation_id(self) -> str | None:
        """The correlation id that the caller set; None if it is the run id."""
        return None if self.correlation_id == self.id else self.correlation_id


class RunLine(Row, frozen=True, kw_only=True):
    """The columns of a run that lists read: not its input and results."""

    id: RunId
    workflow: str
    definition: str
    queue: str
    priority: int
    state: RunState
    place: Place
    step_index: int
    step_state: StepState
    submitted_at: Instant
    due_at: Instant | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: ErrorClass | None
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    attempt_started_at: Instant | None
    ended_at: Instant | None
    idempotency_key: str | None
    correlation_id: str
    tags: JsonList
    cancel_requested_at: Instant | None
    replays: int
    redrives: int

    @property
    def current_worker(self) -> str | None:
        """The worker that executes the run, or the one that finished it.

        A run in the queue belongs to no worker. Its row keeps the token of the last lease (decision 6).
        """
        return self.worker if self.place in (Place.LEASED, Place.ENDED) else None

    @property
    def is_parked(self) -> bool:
        """Whether it waits for an earlier run with the same order key."""
        return is_parked(self.held_by)

    @property
    def was_executed(self) -> bool:
        """Whether an attempt has started. A breaker may hold a run that a worker has only claimed."""
        return self.attempt > 0 or self.step_index > 0 or self.replays > 0


class ListedRun(RunLine, frozen=True, kw_only=True):
    """A run in a list, with the last error of its current step, unless the run succeeded.

    requeued_at  when it was last replayed
    needs_you    it has a dead letter that stays as it is until an operator handles it
    """

    error_type: str | None
    message: str | None
    requeued_at: Instant | None
    needs_you: bool


class Run(RunLine, frozen=True, kw_only=True):
    """A stored run. Fields about a step and its attempts refer to the current step."""

    org: str
    input: str
    step_input: str | None
    result: str | None
    rate_limit_waits: int
    holds: int
    metadata: str | None
    policy_override: str | None
    progress: str | None
    step_only: bool
    has_letter: bool


class RunEvent(Row, frozen=True, kw_only=True):
    """An event in the life of a run, other than an attempt. The database sets `at`."""

    id: str
    run_id: RunId
    kind: str
    at: Instant = 0.0
    step_index: int
    detail: StoredFact


def new_event(event_id: str, run_id: str, kind: str, step_index: int, detail: Fact) -> RunEvent:
    """Return an event to store; its row contains the encoded fact."""
    text: Any = detail.encode()
    return RunEvent(id=event_id, run_id=run_id, kind=kind, step_index=step_index, detail=text)


_P, _R = RunState.PENDING, RunState.RUNNING

RUN_TRANSITIONS = TransitionTable(
    "run",
    _P,
    [
        *moves("a step is claimed", [_P], [_R]),
        *moves("held or released before its first attempt", [_R], [_P]),
        *moves("the last step succeeded", [_R], [RunState.SUCCESS]),
        *moves("a step failed permanently", [_R], [RunState.FAILED]),
        *moves("a step replayed alone succeeded", [_R], [RunState.PARTIAL]),
        *moves("a step became a dead letter", [_R], [RunState.DLQ_PENDING]),
        *moves("cancelled", [_P, _R, *FAILED_RUNS], [RunState.CANCELLED]),
        *moves("replayed", FAILED_RUNS, [_R]),
    ],
)
