"""Structured log lines, for whatever writes a log.

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


def write(
    logger: logging.Logger,
    level: int,
    fields: Mapping[str, Any],
    hidden: Collection[str] = (),
    *,
    clean: bool = False,
) -> None:
    """Write a line, redacted unless its fields are `clean` already.

    Filters and handlers are anybody's code; what they raise stays here.

    `hidden` are fields that `record.fields` carries, but the line does not show.
    """
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    with suppress(Exception):
        record = dict(fields) if clean else DEFAULT_REDACTOR.value(fields)
        line = _line({key: value for key, value in record.items() if key not in hidden})
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
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(str(value), ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    """What could move the cursor, hide text or begin a line."""
    return character if character.isprintable() else json.dumps(character)[1:-1]
