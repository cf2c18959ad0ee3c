"""Structured log lines of calls: one for a failed attempt, one when a call recovers, none while all is well.

A line is readable as it stands (`event key=value …`) and carries the same as a dictionary in `record.fields`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from redrive.calls.event import AttemptFailed, CallEvent, fields_of

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


def is_wanted(*, gave_up: bool) -> bool:
    return LOGGER.isEnabledFor(_level(gave_up))


def write(event: CallEvent, fields: Mapping[str, Any]) -> None:
    """Write the line of one event, redacted."""
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    gave_up = isinstance(event, AttemptFailed) and event.wait is None
    record = DEFAULT_REDACTOR.value({**_FIELDS.get(), **fields, **fields_of(event)})
    LOGGER.log(_level(gave_up), "%s", _line(_name_of(event), record), extra={"fields": record})


def _level(gave_up: bool) -> int:
    return logging.WARNING if gave_up else logging.INFO


def _name_of(event: CallEvent) -> str:
    if not isinstance(event, AttemptFailed):
        return "call.recovered"
    return "call.failed" if event.wait is None else "call.attempt_failed"


def _line(name: str, record: Mapping[str, Any]) -> str:
    pairs = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in record.items())
    return f"{name} {pairs}"
