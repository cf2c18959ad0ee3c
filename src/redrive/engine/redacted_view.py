"""RedactedView: what is stored of runs as a person may see it, opened and without its secrets (W14, I9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redrive.engine.definition import Definition
from redrive.engine.encryption import Encryption
from redrive.engine.history import Step
from redrive.engine.run_view import (
    AttemptView,
    LetterMark,
    PlannedStep,
    RunError,
    RunSummary,
    RunView,
    StepView,
)
from redrive.errors import NotStorableError, SealedError
from redrive.model.attempt import AttemptRecord
from redrive.model.dead_letter import DeadLetter
from redrive.model.run import Run, RunLine, RunState
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.redact import Redactor
from redrive.policy.stored import policy_to_json
from redrive.policy.user_text import clean_reason

SEALED = "$sealed"
UNREADABLE = "$unreadable"

_CHANGED = frozenset({"definition", "idempotency_key", "correlation_id", "tags"})
_SAME = tuple(name for name in RunLine.__struct_fields__ if name not in _CHANGED)
_ERROR = tuple(name for name in RunError._fields if name not in ("attempt", "at"))


class RedactingEncryption(Encryption):
    """Opens what can be opened. In the place of the rest stands why it cannot be shown."""

    def __init__(self, encryption: Encryption) -> None:
        super().__init__()
        self._encryption = encryption

    def decrypt(self, text: str) -> str:
        try:
            opened = self._encryption.decrypt(text)
            decode(opened)
        except SealedError as error:
            return encode({SEALED: f"with the key {error.key_id[:20]!r}, which is not configured here"})
        except NotStorableError:
            return encode({UNREADABLE: "it was damaged or changed after it was stored"})
        return opened


class RedactedView:
    def __init__(self, encryption: Encryption, redactor: Redactor) -> None:
        self.encryption = RedactingEncryption(encryption)
        self._redactor = redactor

    def said(self, reason: str) -> str:
        """A reason as it may be kept."""
        return clean_reason(reason, self._redactor)

    def summary(self, line: RunLine | Run, definition: Definition | None) -> RunSummary:
        return RunSummary(**self._summary(line, definition))

    def run(
        self,
        run: Run,
        definition: Definition,
        attempts: Sequence[AttemptRecord],
        letters: Sequence[DeadLetter],
    ) -> RunView:
        return RunView(
            **self._summary(run, definition),
            steps=planned_steps(definition),
            rate_limit_waits=run.rate_limit_waits,
            holds=run.holds,
            input=self._stored(run.input),
            result=self._stored(run.result),
            metadata=self._stored(run.metadata),
            progress=self._stored(run.progress),
            retry_policy_override=self._stored(run.policy_override),
            step_only=bool(run.step_only),
            error=_error_of(run, attempts),
            dead_letter=LetterMark(letters[-1].id, letters[-1].state) if letters else None,
        )

    def step(self, step: Step, run: Run) -> StepView:
        shown = {
            "correlation_id": self._name(step.correlation_id, run.id),
            "config": self._redacted(step.config),
            "output": self._redacted(step.output),
            "retry_policy": policy_to_json(step.retry_policy),
            "retry_policy_override": self._stored(step.retry_policy_override),
        }
        return StepView(**step._asdict() | shown)

    def attempt(self, attempt: AttemptRecord, step: str) -> AttemptView:
        fields = attempt.asdict() | {"step": step, "output": self._stored(attempt.output)}
        del fields["run_id"]
        return AttemptView(**fields)

    def _summary(self, line: RunLine | Run, definition: Definition | None) -> dict[str, Any]:
        return {name: getattr(line, name) for name in _SAME} | {
            "step": _step_name(definition, line.step_index),
            "idempotency_key": self._name(line.idempotency_key, line.id),
            "correlation_id": self._name(line.correlation_id, line.id),
            "tags": self._words(line.tags),
        }

    def _stored(self, text: str | None) -> JsonValue:
        return None if text is None else self._redacted(decode(self.encryption.decrypt(text)))

    def _redacted(self, value: JsonValue) -> JsonValue:
        shown: JsonValue = self._redactor.value(value)
        return shown

    def _name(self, name: str | None, run_id: str) -> str | None:
        """Users choose keys out of anything; what begins with the id of the run was made here."""
        return name if name is None or name.startswith(run_id) else self._redactor.text(name)

    def _words(self, text: str | None) -> tuple[str, ...]:
        value = self._stored(text)
        return tuple(map(str, value)) if isinstance(value, list) else ()


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
    own = [each for each in attempts if each.step_index == run.step_index and each.error_type is not None]
    if not own or run.state == RunState.SUCCESS:
        return None
    last = own[-1]
    return RunError(last.number, last.ended_at, *(getattr(last, name) for name in _ERROR))
