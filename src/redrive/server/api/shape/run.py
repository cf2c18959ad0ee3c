"""Runs, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.model.dead_letter import DeadLetterState
from redrive.model.run import Cancellation, Place, RunState
from redrive.model.step import StepState
from redrive.server.api.shape.base import Moment, Shown
from redrive.server.api.shape.dead_letter import CountShape


class RunLineShape(Shown):
    """As lists show it. `attempt` counts those of the current step, `failures` those towards its budget;
    `held_by` is the breaker or limit that its work waits for."""

    id: str
    workflow: str
    queue: str
    priority: int
    state: RunState
    place: Place
    step_index: int
    step: str
    step_state: StepState
    submitted_at: Moment
    due_at: Moment | None
    next_retry_at: Moment | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: str | None
    first_failed_at: Moment | None
    last_failed_at: Moment | None
    worker: str | None
    code_version: str | None
    started_at: Moment | None
    attempt_started_at: Moment | None
    ended_at: Moment | None
    idempotency_key: str | None
    correlation_id: str
    tags: list[str]
    cancel_requested_at: Moment | None
    replays: int
    redrives: int


class RunPage(Shown):
    items: list[RunLineShape]
    next_cursor: str | None


class PlannedStepShape(Shown):
    """A step as the run was started with it."""

    step_index: int
    name: str
    task: str
    queue: str
    timeout: float
    breaker: str | None
    effect: str


class RunErrorShape(Shown):
    """The last failure of the current step."""

    attempt: int
    at: Moment | None
    category: str | None
    error_class: str | None
    error_type: str
    message: str
    http_status: int | None
    public_code: str | None
    public_message: str | None
    reason: str
    explanation: str


class LetterMarkShape(Shown):
    id: str
    state: DeadLetterState


class RunShape(RunLineShape):
    """With what it was given and has given, redacted; what no key opens is shown as `$sealed`."""

    steps: list[PlannedStepShape]
    rate_limit_waits: int
    holds: int
    input: Any
    result: Any
    metadata: Any
    progress: Any
    retry_policy_override: Any
    step_only: bool
    error: RunErrorShape | None
    dead_letter: LetterMarkShape | None


class StepShape(Shown):
    """One position of a run (W6)."""

    step_index: int
    name: str
    task: str
    state: StepState
    attempt_count: int
    max_retries: int
    retry_policy: Any
    retry_policy_override: Any
    config: Any
    output: Any
    next_retry_at: Moment | None
    error_class: str | None
    first_failed_at: Moment | None
    last_failed_at: Moment | None
    error_stack: str | None
    correlation_id: str
    started_at: Moment | None
    ended_at: Moment | None


class StepList(Shown):
    items: list[StepShape]
    next_cursor: str | None


class HappeningShape(Shown):
    """`what` is queued, started, retry, held, succeeded, finished, and the like (P9)."""

    at: Moment
    what: str
    step_index: int | None
    step: str | None
    attempt: int | None
    detail: str


class HappeningList(Shown):
    items: list[HappeningShape]
    next_cursor: str | None


class StateCounts(Shown):
    """How many runs there are in each state, counted up to 10,000 each."""

    PENDING: CountShape
    RUNNING: CountShape
    SUCCESS: CountShape
    FAILED: CountShape
    PARTIAL: CountShape
    DLQ_PENDING: CountShape
    CANCELLED: CountShape


class RunMark(Shown):
    """That there is such a run, and how it stands."""

    id: str
    state: RunState


class Started(RunMark):
    """`existed`: it was started before, under the same key."""

    existed: bool


class StartedOne(Shown):
    id: str
    existed: bool


class StartedMany(Shown):
    """In the order of the payloads."""

    items: list[StartedOne]


class Cancelled(Shown):
    """`requested`: a worker is executing it just now, and is told."""

    id: str
    outcome: Cancellation
