"""Times and lengths of time of the API, as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

from redrive.cli.terminal import age, moment


def since(text: str | None) -> str:
    """How long ago: 3 min."""
    then = moment(text)
    return "-" if then is None else age(datetime.now(UTC).timestamp() - then)


def stamp(text: str | None) -> str:
    """2026-11-16 04:00:10Z"""
    return "-" if text is None else f"{text[:10]} {text[11:19]}Z"


def clock(text: str | None, day: str | None = None) -> str:
    """04:00:10.517, of a day that is known; else with its date."""
    if text is None:
        return "-"
    time = text[11:23].rstrip("Z")
    return time if day is not None and text[:10] == day[:10] else f"{text[:10]} {time}"


def took(start: str | None, end: str | None) -> str:
    """From one moment to the other: 12 ms, 1.2 s, 3 min."""
    before, after = moment(start), moment(end)
    return "-" if before is None or after is None else length(after - before)


def length(seconds: float) -> str:
    if seconds < 1.0:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60.0 else age(seconds)
