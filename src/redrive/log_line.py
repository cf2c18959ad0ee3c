"""Structured log lines.

A line is readable as it stands (`event key=value …`) and carries the same as a dictionary in `record.fields`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

_PLAIN_LABEL = re.compile(r"[A-Za-z0-9_.-]+")


def write_log_line(
    logger: logging.Logger,
    level: int,
    fields: Mapping[str, Any],
    hidden: Collection[str] = (),
    *,
    clean: bool = False,
) -> None:
    """Write a line; exceptions of filters and handlers stay here.

    hidden  fields that `record.fields` carries, but the line does not show
    clean   the fields are redacted already
    """
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    with suppress(Exception):
        record = dict(fields) if clean else DEFAULT_REDACTOR.value(fields)
        line = _line({key: value for key, value in record.items() if key not in hidden})
        try:
            logger.log(level, "%s", line, extra={"fields": record}, stacklevel=2)
        except KeyError:  # a record factory of the application has set `fields` already
            logger.log(level, "%s", line, stacklevel=2)


def _line(record: Mapping[str, Any]) -> str:
    pairs = (f"{_label(key)}={_format(value)}" for key, value in record.items() if key != "event")
    return " ".join([_label(record["event"]), *pairs])


def _label(key: object) -> str:
    text = str(key)
    return text if _PLAIN_LABEL.fullmatch(text) else json.dumps(text)


def _format(value: object) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(str(value), ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    """Escape a character that could move the cursor, hide text or start a line."""
    return character if character.isprintable() else json.dumps(character)[1:-1]
