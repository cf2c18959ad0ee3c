"""Log lines of calls: one for a failed attempt, one when a call recovers, none while all is well."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from redrive import structured
from redrive.calls.attempt import Attempt
from redrive.calls.event import CallEvent, fields_of
from redrive.kind import name_of
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


def is_wanted(*, alarming: bool) -> bool:
    return LOGGER.isEnabledFor(_level(alarming))


def write(event: CallEvent, fields: Mapping[str, Any], *, alarming: bool) -> None:
    """Write the line of one event."""
    structured.write(LOGGER, _level(alarming), {**_FIELDS.get(), **fields, **fields_of(event)})


def write_answer(attempt: Attempt, status: int) -> None:
    """Write that the HTTP client got an answer; only for whoever wants to see everything."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        fields = {
            "event": "http.answered",
            "operation": attempt.operation,
            "attempt": attempt.number,
            "http_status": status,
            "latency_ms": round(attempt.elapsed() * 1000, 1),
        }
        structured.write(LOGGER, logging.DEBUG, {**_FIELDS.get(), **fields})


def complain(operation: str, hook: object, error: Exception) -> None:
    """Write that a hook has failed."""
    what = f"{type_name(error)}: {probe.text(error)}"
    fields = {"event": "call.hook_failed", "operation": operation, "hook": name_of(hook), "error": what}
    structured.write(LOGGER, logging.ERROR, {**_FIELDS.get(), **fields})


def _level(alarming: bool) -> int:
    return logging.WARNING if alarming else logging.INFO
