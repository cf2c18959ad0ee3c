"""Paths to values within JSON, such as `items[2].price`.

A dot comes before the name of a field, and brackets enclose the index of an item, counted from 0. A name that
contains a dot, a bracket or a quote is written as a JSON string in brackets: `["a.b"].price`.
"""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias

from redrive.errors import InvalidValueError

Path: TypeAlias = "tuple[str | int, ...]"

MAX_PATH_LENGTH: Final = 1_000

_NAME = r"(?P<name>[^.\[\]\"]+)"
_BRACKETS = r'\[(?:(?P<index>0|[1-9]\d{0,8})|(?P<quoted>"(?:[^"\\]|\\.)*"))\]'
_FIRST = re.compile(f"{_NAME}|{_BRACKETS}", re.DOTALL)
_NEXT = re.compile(rf"\.{_NAME}|{_BRACKETS}", re.DOTALL)
_PLAIN = re.compile(r"[^.\[\]\"]+")


def parse_path(text: str) -> Path:
    """Read a path. Raise InvalidValueError, with an example, if it is malformed."""
    steps: list[str | int] = []
    position, step = 0, _FIRST
    while position < len(text) or not steps:
        match = step.match(text, position) if len(text) <= MAX_PATH_LENGTH else None
        if match is None:
            raise _malformed(text)
        steps.append(_step(match, text))
        position, step = match.end(), _NEXT
    return tuple(steps)


def path_text(path: Path) -> str:
    """Write a path as `parse_path` reads it."""
    return "".join(map(_written, path)).removeprefix(".")


def _step(match: re.Match[str], text: str) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["name"] is not None:
        return match["name"]
    try:
        return str(json.loads(match["quoted"], strict=False))
    except ValueError:
        raise _malformed(text) from None


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


def _malformed(text: str) -> InvalidValueError:
    return InvalidValueError(
        f"{text!r:.200} is not a path. Write it like items[2].price: a dot before a field, the index of an "
        f'item in brackets, and a name that contains dots or brackets as ["a.b"]'
    )
