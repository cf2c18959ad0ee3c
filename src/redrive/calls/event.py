"""Events of a guarded call, and the reporter that logs them and calls hooks, without risk for the call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.callables import name_of
from redrive.calls.attempt import Attempt
from redrive.log_line import write_log_line
from redrive.model.decision import Explanation, Reason
from redrive.model.failure import Failure
from redrive.policy import exception
from redrive.policy.recognise import type_name

LOGGER = logging.getLogger("redrive.calls")


class AttemptFailed(NamedTuple):
    """An attempt failed. `wait` is the delay before the next attempt; None: no further one, see `reason`."""

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
    """A call succeeded after at least one failed attempt. `seconds` is the duration of the last attempt."""

    operation: str
    attempt: int
    max_attempts: int
    idempotency_key: str | None
    seconds: float


CallEvent = AttemptFailed | CallRecovered
Hook = Callable[[CallEvent], object]


def _event_name(event: CallEvent) -> str:
    if isinstance(event, CallRecovered):
        return "call.recovered"
    if event.wait is not None:
        return "call.attempt_failed"
    return "call.not_made" if event.failure.unavailable else "call.failed"


def fields_of(event: CallEvent) -> dict[str, Any]:
    """Return the event as flat fields, with the field names used in all logs."""
    fields: dict[str, Any] = {
        "event": _event_name(event),
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


_FIELDS: ContextVar[Mapping[str, Any]] = ContextVar("redrive_log_fields", default=MappingProxyType({}))


@contextmanager
def log_fields(**fields: Any) -> Iterator[None]:
    """Add fields such as request_id, user_id or org_id to every log line that Redrive writes in the block."""
    token = _FIELDS.set({**_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def current_log_fields() -> Mapping[str, Any]:
    return _FIELDS.get()


def log_response(attempt: Attempt, status: int, ids: Mapping[str, str]) -> None:
    """Log a response of the HTTP client at level DEBUG, with the ids that the request sent."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        fields = {
            "event": "http.answered",
            "operation": attempt.operation,
            "attempt": attempt.number,
            "http_status": status,
            "latency_ms": round(attempt.elapsed() * 1000, 1),
        }
        write_log_line(LOGGER, logging.DEBUG, {**_FIELDS.get(), **fields, **ids})


def _log_failed_hook(operation: str, hook: object, error: Exception) -> None:
    what = f"{type_name(error)}: {exception.text(error)}"
    fields = {"event": "call.hook_failed", "operation": operation, "hook": name_of(hook), "error": what}
    write_log_line(LOGGER, logging.ERROR, {**_FIELDS.get(), **fields})


@dataclass(frozen=True, slots=True)
class CallReporter:
    fields: Mapping[str, Any]
    hooks: tuple[Hook, ...]

    def failed(
        self, attempt: Attempt, seconds: float, failure: Failure, why: Explanation, wait: float | None
    ) -> None:
        # An open breaker is expected to reject calls; they must not flood the log during an outage.
        level = logging.WARNING if wait is None and not failure.unavailable else logging.INFO
        if self._has_listener(level):
            self._emit(AttemptFailed(*_subject(attempt), seconds, failure, why.reason, why, wait), level)

    def recovered(self, attempt: Attempt) -> None:
        if self._has_listener(logging.INFO):
            self._emit(CallRecovered(*_subject(attempt), attempt.elapsed()), logging.INFO)

    def _has_listener(self, level: int) -> bool:
        return bool(self.hooks) or LOGGER.isEnabledFor(level)

    def _emit(self, event: CallEvent, level: int) -> None:
        if LOGGER.isEnabledFor(level):
            write_log_line(LOGGER, level, {**_FIELDS.get(), **self.fields, **fields_of(event)})
        for hook in self.hooks:
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001
                _log_failed_hook(event.operation, hook, error)


def _subject(attempt: Attempt) -> tuple[str, int, int, str | None]:
    return attempt.operation, attempt.number, attempt.max_attempts, attempt.idempotency_key
