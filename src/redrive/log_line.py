"""Structured log lines.

People read the text (`event key=value …`); programs read the same data as a dictionary in `record.fields`.
`record.shown` has the fields that the text has.
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
    """Write a log line. Exceptions raised by filters and handlers are swallowed.

    hidden  fields to leave out of the text; `record.fields` still has them
    clean   the fields are already redacted
    """
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    with suppress(Exception):
        record = dict(fields) if clean else DEFAULT_REDACTOR.value(fields)
        shown = {key: value for key, value in record.items() if key not in hidden}
        line = _line(shown)
        try:
            logger.log(level, "%s", line, extra={"fields": record, "shown": shown}, stacklevel=2)
        except KeyError:  # the application's record factory has already set `fields`
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
    return printable(text)


def printable(text: str) -> str:
    """Escape characters that could move the cursor, hide text or start a new line."""
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
