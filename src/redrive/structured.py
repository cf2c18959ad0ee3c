"""Structured log lines, for whatever writes a log.

A line is readable as it stands (`event key=value …`) and carries the same as a dictionary in `record.fields`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_PLAIN_LABEL = re.compile(r"[A-Za-z0-9_.-]+")


def write(logger: logging.Logger, level: int, fields: Mapping[str, Any]) -> None:
    """Write a line, redacted. Filters and handlers are anybody's code; what they raise stays here."""
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    with suppress(Exception):
        record = DEFAULT_REDACTOR.value(fields)
        line = _line(record)
        try:
            logger.log(level, "%s", line, extra={"fields": record}, stacklevel=2)
        except KeyError:  # a record factory of the application has put `fields` there before
            logger.log(level, "%s", line, stacklevel=2)


def _line(record: Mapping[str, Any]) -> str:
    pairs = (f"{_label(key)}={_printed(value)}" for key, value in record.items() if key != "event")
    return " ".join([_label(record["event"]), *pairs])


def _label(key: object) -> str:
    text = str(key)
    return text if _PLAIN_LABEL.fullmatch(text) else json.dumps(text)


def _printed(value: object) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(str(value))
