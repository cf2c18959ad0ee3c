"""A run: one execution of a workflow. A job is a run of one step."""

from __future__ import annotations

from enum import StrEnum

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
    """More about a run than its state, as queries ask for it.

    ready, waiting, held, executing   where its work lies
    retrying                          its step has failed and will be executed again
    replaying                         it had ended, and somebody has sent it on again
    blocked                           it has ended because its step is BLOCKED
    """

    READY = "ready"
    WAITING = "waiting"
    HELD = "held"
    EXECUTING = "executing"
    RETRYING = "retrying"
    REPLAYING = "replaying"
    BLOCKED = "blocked"


class Place(StrEnum):
    """Where the work of a run lies. Workers look in `ready` only; the rest is outside of that index."""

    READY = "ready"
    WAITING = "waiting"
    HELD = "held"
    ALONE = "alone"
    LEASED = "leased"
    ENDED = "ended"


class Cancellation(StrEnum):
    """What came of the wish to cancel a run. `REQUESTED`: a worker is executing it just now, and is told."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    ENDED = "ended"


class NewRun(Row, frozen=True):
    """A run to be stored. It is due `delay` seconds after that, or at the instant `at`."""

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

    @property
    def given_correlation_id(self) -> str | None:
        """The correlation id that the caller has given; without one it is the id of the run."""
        return None if self.correlation_id == self.id else self.correlation_id


class RunLine(Row, frozen=True, kw_only=True):
    """A run as lists show it: without its input and results."""

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


class Run(RunLine, frozen=True, kw_only=True):
    """A run as it is stored. What is said of a step and its attempts is said of the current one."""

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
    """Something that happened to a run besides its attempts. The database sets `at`."""

    id: str
    run_id: RunId
    kind: str
    at: Instant = 0.0
    step_index: int
    detail: str


_P, _R = RunState.PENDING, RunState.RUNNING

RUN_TRANSITIONS = TransitionTable(
    "run",
    _P,
    [
        *moves("a step is claimed", [_P], [_R]),
        *moves("the last step succeeded", [_R], [RunState.SUCCESS]),
        *moves("a step failed for good", [_R], [RunState.FAILED]),
        *moves("a step replayed alone succeeded", [_R], [RunState.PARTIAL]),
        *moves("a step became a dead letter", [_R], [RunState.DLQ_PENDING]),
        *moves("cancelled", [_P, _R, *FAILED_RUNS], [RunState.CANCELLED]),
        *moves("replayed", FAILED_RUNS, [_R]),
    ],
)
