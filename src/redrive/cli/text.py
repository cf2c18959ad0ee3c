"""What a terminal is told: in one line, without secrets, and without signs that would steer it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from redrive.errors import RedriveError
from redrive.policy.redact import DEFAULT_REDACTOR

LONGEST_LINE = 2_000


def notice(line: str) -> None:
    """Say something that is not what was asked for: on stderr."""
    click.echo(line, err=True, color=_color())


def out(text: str) -> None:
    """Give what was asked for: on stdout."""
    click.echo(text, color=_color())


def dim(text: str) -> str:
    return click.style(text, dim=True)


def visible(value: object) -> str:
    """A text in which nothing is hidden: line ends and signs that steer a terminal are written out."""
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in str(value))


def one_line(error: BaseException) -> str:
    """Our own messages hold no secrets, but examples that look like some; of others nobody knows."""
    text = " ".join(str(error).split())
    known = text if isinstance(error, RedriveError) else DEFAULT_REDACTOR.text(text)
    return visible(known)[:LONGEST_LINE] or "it says nothing more"


def instant(seconds: float | None) -> str | None:
    """As RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def _color() -> bool | None:
    """Click asks whether it is a terminal; NO_COLOR it does not know."""
    return False if os.environ.get("NO_COLOR") else None
