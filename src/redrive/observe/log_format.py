"""The formats of the log that a command writes: text for people, JSON for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from redrive.log_line import printable

MAX_VALUE_LENGTH = 120
INDENT = "    "
ALIASES: Mapping[str, str] = MappingProxyType({"run_id": "job_id", "http_status": "gateway_status"})
"""Names that other systems use for fields; a JSON line has these fields under both names."""
_BLOCKS = ("stack",)
"""Fields of several lines, which the text shows below the line."""


class TextFormatter(logging.Formatter):
    """`2026-11-19 04:43:58 ERROR step.died task=charge error="ValueError: no card"`, with stacks below it.

    A value is cut to its first line and to 120 characters. Nothing in a value can start a line that looks
    like another entry: the lines of a stack are indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        shown = getattr(record, "shown", None)
        if not isinstance(shown, Mapping):
            return super().format(record)
        pairs = [f"{key}={_value(value)}" for key, value in shown.items() if key not in ("event", *_BLOCKS)]
        head = " ".join(
            [self.formatTime(record, self.datefmt), record.levelname, str(shown["event"]), *pairs]
        )
        blocks = [line for name in _BLOCKS for line in str(shown.get(name, "")).splitlines()]
        return "\n".join([printable(head), *(INDENT + printable(line.expandtabs()) for line in blocks)])


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger` and the fields of the event, some twice."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": time, "level": record.levelname, "logger": record.name}
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, Mapping) else {"message": record.getMessage()}
        line |= {alias: line[name] for name, alias in ALIASES.items() if name in line}
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


FORMATS: Mapping[str, Callable[[], logging.Formatter]] = MappingProxyType(
    {"text": TextFormatter, "json": JsonFormatter}
)


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str, ensure_ascii=False)
    first = next(iter(value.splitlines()), "")[:MAX_VALUE_LENGTH]
    text = first if first == value else f"{first}…"
    is_plain = text and not any(character in ' "=' for character in text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
