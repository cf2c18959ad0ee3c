"""Terminal output: results on stdout, notices on stderr, with control characters escaped."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import click

from redrive.errors import RedriveError
from redrive.model.run import UNKNOWN_TASK, is_unknown
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.words.state import Tone, state_label, status

Part = str | tuple[str, str]
"""A text, or a text and its style: good, warn, bad, bold or dim."""

STYLES: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "good": {"fg": "green"},
        "warn": {"fg": "yellow"},
        "bad": {"fg": "red"},
        "bold": {"bold": True},
        "dim": {"dim": True},
        "": {},
    }
)
_TONE_STYLES = {Tone.BAD: "bad", Tone.WARN: "warn", Tone.BUSY: "warn", Tone.GOOD: "good"}
MAX_LINE_LENGTH = 2_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that control a terminal or hide text, except tabs and line breaks."""


def notice(*parts: Part) -> None:
    """Write a line to stderr: everything but the result. A closed stderr is ignored."""
    with suppress(BrokenPipeError):
        click.echo(_styled(parts), err=True, color=_color())


def out(*parts: Part, end: str = "\n") -> None:
    """Write the result to stdout."""
    click.echo(_styled(parts) + end, color=_color(), nl=False)


def escape_controls(text: str) -> str:
    """Escape every character that controls a terminal, and keep line breaks."""
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def escape(value: object) -> str:
    """Escape everything that is not printable, including line breaks."""
    return "".join(char if char.isprintable() else _escaped(char) for char in str(value))


def one_line(error: BaseException | str) -> str:
    """Return the message of an error on one line. Messages of foreign errors are redacted."""
    text = " ".join(str(error).split())
    known = text if isinstance(error, RedriveError) else DEFAULT_REDACTOR.text(text)
    return escape(known)[:MAX_LINE_LENGTH] or "no message"


def styled_state(state: str, text: str | None = None) -> Part:
    """Return the word of a state, or another text, in the color of the state; red needs an operator."""
    return text or status(state), _TONE_STYLES.get(state_label(state).tone, "")


def styled_status(row: Mapping[str, Any]) -> Part:
    """Return the status of an item of the API, in its color."""
    state = "NEEDS_ATTENTION" if row.get("needs_you") else row["state"]
    return styled_state(UNKNOWN_TASK if is_unknown(row.get("held_by")) else state, row["status"])


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def wants_color() -> bool:
    return not os.environ.get("NO_COLOR")


def has_rich() -> bool:
    """Return whether rich is installed; tables and progress bars need it."""
    return find_spec("rich") is not None


def _styled(parts: tuple[Part, ...]) -> str:
    """Style the parts; escape sequences in the text itself are escaped."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return "".join(
        click.style(escape_controls(text), **STYLES[style]) if style else escape_controls(text)
        for text, style in pairs
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _color() -> bool | None:
    """Return False for no color, or None to let click check for a terminal."""
    return None if wants_color() else False
