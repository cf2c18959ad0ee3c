"""Runs, steps and attempts as a person sees them: plain values, opened and redacted (see showing)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from redrive.model.attempt import AttemptOutcome
from redrive.model.dead_letter import DeadLetterState
from redrive.model.field import Instant
from redrive.model.run import Place, RunState
from redrive.model.step import StepState
from redrive.policy.codec import JsonValue


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run as lists show it. `step` is the name of the step at `step_index`, empty where it is not known.

    due_at      when its work is due, if that is to come
    attempt     attempts of the current step so far; `failures` are those that count towards its budget
    held_by     the breaker or limit that its work waits for
    """

    id: str
    workflow: str
    queue: str
    priority: int
    state: RunState
    place: Place
    step_index: int
    step: str
    step_state: StepState
    submitted_at: Instant
    due_at: Instant | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: str | None
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    attempt_started_at: Instant | None
    ended_at: Instant | None
    idempotency_key: str | None
    correlation_id: str
    tags: tuple[str, ...]
    cancel_requested_at: Instant | None
    replays: int
    redrives: int

    @property
    def next_retry_at(self) -> Instant | None:
        return self.due_at if self.step_state == StepState.RETRYING else None


class PlannedStep(NamedTuple):
    """A step as the run was started with it."""

    step_index: int
    name: str
    task: str
    queue: str
    timeout: float
    breaker: str | None
    effect: str


class RunError(NamedTuple):
    """The last failure of the current step."""

    attempt: int
    at: Instant | None
    category: str | None
    error_class: str | None
    error_type: str
    message: str
    http_status: int | None
    public_code: str | None
    public_message: str | None
    reason: str
    explanation: str


class LetterMark(NamedTuple):
    id: str
    state: DeadLetterState


@dataclass(frozen=True, kw_only=True)
class RunView(RunSummary):
    """A run with what it was given and has given, redacted. What no key opens is shown as `$sealed`.

    step_only  it is being replayed up to the end of its current step, or was
    """

    steps: tuple[PlannedStep, ...]
    rate_limit_waits: int
    holds: int
    input: JsonValue
    result: JsonValue
    metadata: JsonValue
    progress: JsonValue
    retry_policy_override: JsonValue
    step_only: bool
    error: RunError | None
    dead_letter: LetterMark | None


class StepView(NamedTuple):
    """One position of a run."""

    step_index: int
    name: str
    task: str
    state: StepState
    attempt_count: int
    max_retries: int
    retry_policy: JsonValue
    retry_policy_override: JsonValue
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


class AttemptView(NamedTuple):
    """An attempt of the step of that name. `replay` counts the replays before it; 0 is the run itself."""

    step_index: int
    step: str
    number: int
    outcome: AttemptOutcome
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None
    reason: str
    explanation: str
    delay: float | None
    category: str | None
    error_class: str | None
    error_type: str | None
    message: str | None
    stack: str | None
    http_status: int | None
    public_code: str | None
    public_message: str | None
    replay: int
    output: JsonValue
