"""Lines for a terminal: answers on stdout, notices on stderr, with control characters escaped."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import click

from redrive.errors import RedriveError
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.words.state import Tone, state_label

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
"""Characters that steer a terminal or hide text; all but tabs and line ends."""


def notice(*parts: Part) -> None:
    """Write a line to stderr, for all that is not the answer itself. A closed stderr is ignored."""
    with suppress(BrokenPipeError):
        click.echo(_styled(parts), err=True, color=_color())


def out(*parts: Part, end: str = "\n") -> None:
    """Write to stdout: the answer."""
    click.echo(_styled(parts) + end, color=_color(), nl=False)


def escape_controls(text: str) -> str:
    """Write out every character that steers a terminal, and keep the lines."""
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def escape(value: object) -> str:
    """Write out everything that is not printable, line ends too: one line in which nothing is hidden."""
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in str(value))


def one_line(error: BaseException | str) -> str:
    """The message of an error. Only our own are known to hold no secrets, so others are redacted."""
    text = " ".join(str(error).split())
    known = text if isinstance(error, RedriveError) else DEFAULT_REDACTOR.text(text)
    return escape(known)[:MAX_LINE_LENGTH] or "it says nothing more"


def styled_state(state: str, text: str | None = None) -> Part:
    """Return the state, or another text, in its colour; red needs an operator."""
    tone = state_label(state).tone
    return state if text is None else text, _TONE_STYLES.get(tone, "")


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def wants_color() -> bool:
    return not os.environ.get("NO_COLOR")


def has_rich() -> bool:
    """Return whether rich is installed, which draws tables and progress bars."""
    return find_spec("rich") is not None


def _styled(parts: tuple[Part, ...]) -> str:
    """Only styles that we name become escape sequences; those in a text are written out."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return "".join(
        click.style(escape_controls(text), **STYLES[style]) if style else escape_controls(text)
        for text, style in pairs
    )


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def _color() -> bool | None:
    """None leaves it to click, which looks whether it is a terminal."""
    return None if wants_color() else False
