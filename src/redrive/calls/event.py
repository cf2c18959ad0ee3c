"""Events of a guarded call, for logs, metrics and hooks."""

from __future__ import annotations

from typing import Any, NamedTuple

from redrive.model.decision import Explanation, Reason
from redrive.model.failure import Failure


class AttemptFailed(NamedTuple):
    """An attempt failed. `wait` is the pause before the next one; None: there is none, see `reason`."""

    operation: str
    attempt: int
    max_attempts: int
    idempotency_key: str | None
    seconds: float
    failure: Failure
    reason: Reason
    explanation: Explanation
    wait: float | None


class CallRecovered(NamedTuple):
    """A call succeeded after at least one attempt had failed. `seconds`: of the last attempt."""

    operation: str
    attempt: int
    max_attempts: int
    idempotency_key: str | None
    seconds: float


CallEvent = AttemptFailed | CallRecovered


def name_of(event: CallEvent) -> str:
    if isinstance(event, CallRecovered):
        return "call.recovered"
    if event.wait is not None:
        return "call.attempt_failed"
    return "call.not_made" if event.failure.unavailable else "call.failed"


def fields_of(event: CallEvent) -> dict[str, Any]:
    """Return the event as flat fields, with the names that all logs use."""
    fields: dict[str, Any] = {
        "event": name_of(event),
        "operation": event.operation,
        "attempt": event.attempt,
        "max_attempts": event.max_attempts,
        "idempotency_key": event.idempotency_key,
        "latency_ms": round(event.seconds * 1000, 1),
    }
    if isinstance(event, AttemptFailed):
        failure = event.failure
        fields |= {
            "retryable": failure.retryable,
            "error_class": str(failure.error_class),
            "category": str(failure.category),
            "rule": failure.rule,
            "http_status": failure.http_status,
            "delivery": str(failure.delivery),
            "reason": str(event.reason),
            "wait_ms": None if event.wait is None else round(event.wait * 1000, 1),
            "error": f"{failure.error_type}: {failure.message}",
        }
    return {name: value for name, value in fields.items() if value is not None}
