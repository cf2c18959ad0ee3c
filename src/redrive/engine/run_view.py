"""Runs, steps and attempts for display: decrypted and redacted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redrive.engine.definition import Definition
from redrive.engine.encryption import Encryption
from redrive.engine.history import Step
from redrive.errors import NotStorableError, SealedError
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.decision import DecisionFacts
from redrive.model.field import Instant, Json
from redrive.model.run import UNKNOWN_TASK, ListedRun, Place, Run, RunLine, RunState, is_parked, is_unknown
from redrive.model.run_order import RunOrder
from redrive.model.step import AttemptOutcome, AttemptRecord, StepState
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.policy_json import policy_to_json
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.rows import UNREADABLE
from redrive.store.runs import RunOrigin
from redrive.words.failure import first_line
from redrive.words.state import status


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run in a list. `step` is the name of the step at `step_index`, or empty if it is unknown.

    queued_at   when the run was submitted, or last replayed or retried by a person
    due_at      when the run becomes due, if it is waiting
    attempt     attempts of the current step so far; `failures` counts those that use up its retry budget
    held_by     the breaker or limit that holds the run, or the order key for which it waits
    worker      the worker that executes the run, or that finished it
    needs_you   it has a dead letter that stays as it is until an operator handles it
    error_type  of the last error of the current step; None if the run succeeded
    error_line  first line of that error's message, redacted
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
    queued_at: Instant
    due_at: Instant | None
    held_by: str | None
    attempt: int
    failures: int
    error_class: str | None
    error_type: str | None
    error_line: str | None
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
    needs_you: bool

    @property
    def detailed_state(self) -> str:
        """A more precise state: what a live run is doing, and whether a failed one needs a person."""
        if self.ended_at is not None:
            return "NEEDS_ATTENTION" if self.needs_you else self.state
        if is_unknown(self.held_by):
            return UNKNOWN_TASK
        if self.place == Place.WAITING:
            return "WAITING" if self.next_retry_at is None else "RETRYING"
        return _POSITIONS[self.place]

    @property
    def status(self) -> str:
        return status(self.detailed_state)

    @property
    def next_retry_at(self) -> Instant | None:
        return self.due_at if self.step_state == StepState.RETRYING else None

    @property
    def updated_at(self) -> Instant:
        """The newest instant of the run."""
        known = (
            self.queued_at,
            self.started_at,
            self.attempt_started_at,
            self.last_failed_at,
            self.cancel_requested_at,
            self.ended_at,
        )
        return max(at for at in known if at is not None)


_POSITIONS = {Place.READY: "READY", Place.ALONE: "READY", Place.HELD: "HELD", Place.LEASED: "RUNNING"}


class PlannedStep(NamedTuple):
    """A step as defined when the run was started."""

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
    decision: DecisionFacts


class LetterMark(NamedTuple):
    id: str
    state: DeadLetterState


@dataclass(frozen=True, kw_only=True)
class RunView(RunSummary):
    """A run with its input and result, redacted. A value whose key is not configured appears as `$sealed`.

    step_only  the current or last replay executes only one step
    owner      the user who may retry the run with only the permission to read
    order      its order key and its place in the order; None if it has no order key
    """

    steps: tuple[PlannedStep, ...]
    rate_limit_waits: int
    holds: int
    input: Json
    result: Json
    metadata: Json
    progress: Json
    retry_policy_override: Json
    step_only: bool
    owner: str | None
    order: RunOrder | None
    error: RunError | None
    dead_letter: LetterMark | None

    @property
    def dlq_enqueued(self) -> bool:
        """Whether the run has a dead letter. Another name for `dead_letter is not None`."""
        return self.dead_letter is not None

    @property
    def dlq_task_id(self) -> str | None:
        """Another name for `dead_letter.id`."""
        return None if self.dead_letter is None else self.dead_letter.id


class StepView(NamedTuple):
    """One position of a run."""

    step_index: int
    name: str
    task: str
    state: StepState
    attempt_count: int
    max_retries: int
    retry_policy: Json
    retry_policy_override: Json
    config: Json
    output: Json
    next_retry_at: Instant | None
    error_class: str | None
    first_failed_at: Instant | None
    last_failed_at: Instant | None
    error_stack: str | None
    correlation_id: str
    started_at: Instant | None
    ended_at: Instant | None


class AttemptView(NamedTuple):
    """An attempt of the step named `step`. `replay` counts the replays before it; 0 is the original run."""

    step_index: int
    step: str
    number: int
    outcome: AttemptOutcome
    worker: str | None
    code_version: str | None
    started_at: Instant | None
    ended_at: Instant | None
    reason: str
    decision: DecisionFacts
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
    output: Json


SEALED = "$sealed"
MAX_ERROR_LINE = 1_000
"""Characters of a message that the lists of runs read from the database."""

_CONVERTED_FIELDS = frozenset(
    {
        "definition",
        "held_by",
        "idempotency_key",
        "correlation_id",
        "tags",
        "worker",
        "started_at",
        "attempt_started_at",
    }
)
_NEEDS_YOU = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)
_COPIED_FIELDS = tuple(name for name in RunLine.__struct_fields__ if name not in _CONVERTED_FIELDS)
_ERROR_FIELDS = tuple(name for name in RunError._fields if name not in ("attempt", "at"))


class RedactingEncryption(Encryption):
    """Decrypts values for display. A value that cannot be decrypted is replaced by the reason."""

    def __init__(self, encryption: Encryption) -> None:
        super().__init__()
        self._encryption = encryption

    def decrypt(self, text: str) -> str:
        try:
            decrypted = self._encryption.decrypt(text)
            decode(decrypted)
        except SealedError as error:
            return encode({SEALED: f"with the key {error.key_id[:20]!r}, which is not configured here"})
        except NotStorableError:
            return encode(UNREADABLE)
        return decrypted


class RedactedView:
    def __init__(self, encryption: Encryption, redactor: Redactor) -> None:
        self.encryption = RedactingEncryption(encryption)
        self._redactor = redactor

    def clean_reason(self, reason: str) -> str:
        """Redact a reason and check its length, so that it can be stored."""
        return clean_reason(reason, self._redactor)

    def summary(self, run: ListedRun, definition: Definition | None) -> RunSummary:
        fields = self._summary(run, definition, run.error_type, run.message, run.requeued_at)
        return RunSummary(**fields, needs_you=bool(run.needs_you))

    def run(
        self,
        run: Run,
        definition: Definition | None,
        attempts: Sequence[AttemptRecord],
        letters: Sequence[DeadLetter],
        origin: RunOrigin,
        order: RunOrder | None = None,
    ) -> RunView:
        error = _error_of(run, attempts)
        error_type, message = (None, None) if error is None else (error.error_type, error.message)
        return RunView(
            **self._summary(run, definition, error_type, message, origin.requeued_at),
            steps=() if definition is None else planned_steps(definition),
            rate_limit_waits=run.rate_limit_waits,
            holds=run.holds,
            input=self._stored(run.input),
            result=self._stored(run.result),
            metadata=self._stored(run.metadata),
            progress=self._stored(run.progress),
            retry_policy_override=self._stored(run.policy_override),
            step_only=bool(run.step_only),
            needs_you=any(
                letter.state in _NEEDS_YOU and letter.next_redrive_at is None and not letter.waits
                for letter in letters[-1:]
            ),
            owner=None if origin.owner is None else self._redactor.text(origin.owner),
            order=None if order is None else order._replace(key=self._redactor.text(order.key)),
            error=error,
            dead_letter=LetterMark(letters[-1].id, letters[-1].state) if letters else None,
        )

    def step(self, step: Step, run: Run) -> StepView:
        redacted = {
            "correlation_id": self._name(step.correlation_id, run.id),
            "config": self._redacted(step.config),
            "output": self._redacted(step.output),
            "retry_policy": policy_to_json(step.retry_policy),
            "retry_policy_override": self._stored(step.retry_policy_override),
        }
        return StepView(**step._asdict() | redacted)

    def attempt(self, attempt: AttemptRecord, step: str) -> AttemptView:
        fields = attempt.asdict() | {"step": step, "output": self._stored(attempt.output)}
        del fields["run_id"]
        return AttemptView(**fields)

    def _summary(
        self,
        line: RunLine,
        definition: Definition | None,
        error_type: str | None,
        message: str | None,
        requeued_at: float | None,
    ) -> dict[str, Any]:
        return {name: getattr(line, name) for name in _COPIED_FIELDS} | {
            "error_type": error_type,
            "error_line": None if message is None else first_line(message[:MAX_ERROR_LINE]),
            "held_by": self._holder(line.held_by),
            "queued_at": max(line.submitted_at, requeued_at or 0.0),
            "worker": line.current_worker,
            "started_at": line.started_at if line.was_executed else None,
            "attempt_started_at": line.attempt_started_at if line.was_executed else None,
            "step": _step_name(definition, line.step_index),
            "idempotency_key": self._name(line.idempotency_key, line.id),
            "correlation_id": self._name(line.correlation_id, line.id),
            "tags": tuple(map(self._redactor.text, line.tags)),
        }

    def _holder(self, held_by: str | None) -> str | None:
        """Redact an order key, which a user chose."""
        return self._redactor.text(held_by) if held_by is not None and is_parked(held_by) else held_by

    def _stored(self, text: str | None) -> JsonValue:
        return None if text is None else self._redacted(decode(self.encryption.decrypt(text)))

    def _redacted(self, value: JsonValue) -> JsonValue:
        redacted: JsonValue = self._redactor.value(value)
        return redacted

    def _name(self, name: str | None, run_id: str) -> str | None:
        """Redact a key chosen by a user. A key that starts with the id of the run was generated here."""
        return name if name is None or name.startswith(run_id) else self._redactor.text(name)


def planned_steps(definition: Definition) -> tuple[PlannedStep, ...]:
    return tuple(
        PlannedStep(index, step.name, step.task, step.queue, step.timeout, step.breaker, str(step.effect))
        for index, step in enumerate(definition.steps)
    )


def _step_name(definition: Definition | None, index: int) -> str:
    if definition is None or not 0 <= index < len(definition.steps):
        return ""
    return definition.steps[index].name


def _error_of(run: Run, attempts: Sequence[AttemptRecord]) -> RunError | None:
    failed = [
        attempt
        for attempt in attempts
        if attempt.step_index == run.step_index and attempt.error_type is not None
    ]
    if not failed or run.state == RunState.SUCCESS:
        return None
    last = failed[-1]
    return RunError(last.number, last.ended_at, *(getattr(last, name) for name in _ERROR_FIELDS))
