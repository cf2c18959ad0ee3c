"""What a terminal is told: in one line, without secrets, and without signs that would steer it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime

import click

from redrive.errors import RedriveError
from redrive.policy.redact import DEFAULT_REDACTOR

MAX_LINE_LENGTH = 2_000
_STEERING = re.compile(
    r"(\x1b\[(?:0|1|2|3[1-3])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
"""What steers a terminal; the first group is how our own colours look."""


def notice(line: str) -> None:
    """Say something that is not what was asked for: on stderr. If nobody listens, the work goes on."""
    with suppress(BrokenPipeError):
        click.echo(harmless(line), err=True, color=_color())


def out(text: str, *, end: str = "\n") -> None:
    """Give what was asked for: on stdout."""
    click.echo(harmless(text) + end, color=_color(), nl=False)


def dim(text: str) -> str:
    return click.style(text, dim=True)


def good(text: str) -> str:
    return click.style(text, fg="green")


def warn(text: str) -> str:
    return click.style(text, fg="yellow")


def bad(text: str) -> str:
    return click.style(text, fg="red")


def bold(text: str) -> str:
    return click.style(text, bold=True)


def harmless(text: str) -> str:
    """The same in lines and colours, but nothing in it steers a terminal, whoever wrote a part of it."""
    return _STEERING.sub(lambda found: found[1] or _escaped(found[0]), text)


def visible(value: object) -> str:
    """A text in which nothing is hidden: line ends and signs that steer a terminal are written out."""
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in str(value))


def one_line(error: BaseException | str) -> str:
    """Our own messages hold no secrets, but examples that look like some; of others nobody knows."""
    text = " ".join(str(error).split())
    known = text if isinstance(error, RedriveError) else DEFAULT_REDACTOR.text(text)
    return visible(known)[:MAX_LINE_LENGTH] or "it says nothing more"


def instant(seconds: float | None) -> str | None:
    """As RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def short(fingerprint: str) -> str:
    """Enough of it to name the group."""
    return fingerprint.partition(":")[2][:12] or fingerprint


def plural(number: int, noun: str, many: str = "") -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {many or f'{noun}s'}"


def moment(text: str | None) -> float | None:
    """The other way round."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def age(seconds: float) -> str:
    """As people say it: 3 min, 2 h, 5 d."""
    for unit, length in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def ago(text: str | None) -> str:
    """How long ago a moment was, or in how long it will be."""
    then = moment(text)
    if then is None:
        return "-"
    passed = datetime.now(UTC).timestamp() - then
    return f"{age(passed)} ago" if passed >= 0.0 else f"in {age(-passed)}"


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def _color() -> bool | None:
    """Click asks whether it is a terminal; NO_COLOR it does not know."""
    return False if os.environ.get("NO_COLOR") else None
