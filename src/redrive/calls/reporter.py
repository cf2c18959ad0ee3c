"""Reports of what happens to a call: log lines and events for hooks. No listener can harm the call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from redrive.callables import name_of
from redrive.calls.attempt import Attempt
from redrive.calls.event import AttemptFailed, CallEvent, CallRecovered, fields_of
from redrive.log_line import write_log_line
from redrive.model.decision import Explanation
from redrive.model.failure import Failure
from redrive.policy import probe
from redrive.policy.recognise import type_name

LOGGER = logging.getLogger("redrive.calls")

_FIELDS: ContextVar[Mapping[str, Any]] = ContextVar("redrive_log_fields", default=MappingProxyType({}))


@contextmanager
def log_fields(**fields: Any) -> Iterator[None]:
    """Add fields such as request_id, user_id or org_id to every log line written inside the block."""
    token = _FIELDS.set({**_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def current_log_fields() -> Mapping[str, Any]:
    return _FIELDS.get()


def _is_logged(*, alarming: bool) -> bool:
    return LOGGER.isEnabledFor(_level(alarming))


def log_response(attempt: Attempt, status: int) -> None:
    """Log a response of the HTTP client, at the level DEBUG."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        fields = {
            "event": "http.answered",
            "operation": attempt.operation,
            "attempt": attempt.number,
            "http_status": status,
            "latency_ms": round(attempt.elapsed() * 1000, 1),
        }
        write_log_line(LOGGER, logging.DEBUG, {**_FIELDS.get(), **fields})


def _log_failed_hook(operation: str, hook: object, error: Exception) -> None:
    what = f"{type_name(error)}: {probe.text(error)}"
    fields = {"event": "call.hook_failed", "operation": operation, "hook": name_of(hook), "error": what}
    write_log_line(LOGGER, logging.ERROR, {**_FIELDS.get(), **fields})


def _level(alarming: bool) -> int:
    return logging.WARNING if alarming else logging.INFO


Hook = Callable[[CallEvent], object]


@dataclass(frozen=True, slots=True)
class CallReporter:
    fields: Mapping[str, Any]
    hooks: tuple[Hook, ...]

    def failed(
        self, attempt: Attempt, seconds: float, failure: Failure, why: Explanation, wait: float | None
    ) -> None:
        # An open breaker rejects calls as expected; they must not flood the log during an outage.
        alarming = wait is None and not failure.unavailable
        if self._has_listener(alarming):
            event = AttemptFailed(*_subject(attempt), seconds, failure, why.reason, why, wait)
            self._emit(event, alarming)

    def recovered(self, attempt: Attempt) -> None:
        if self._has_listener(alarming=False):
            self._emit(CallRecovered(*_subject(attempt), attempt.elapsed()), alarming=False)

    def _has_listener(self, alarming: bool) -> bool:
        return bool(self.hooks) or _is_logged(alarming=alarming)

    def _emit(self, event: CallEvent, alarming: bool) -> None:
        if _is_logged(alarming=alarming):
            write_log_line(LOGGER, _level(alarming), {**_FIELDS.get(), **self.fields, **fields_of(event)})
        for hook in self.hooks:
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001
                _log_failed_hook(event.operation, hook, error)


def _subject(attempt: Attempt) -> tuple[str, int, int, str | None]:
    return attempt.operation, attempt.number, attempt.max_attempts, attempt.idempotency_key
