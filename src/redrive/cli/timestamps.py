"""The API's timestamps as people read them: "3 min ago", "2026-11-16 04:00:10Z"."""

from __future__ import annotations

from datetime import UTC, datetime

from redrive.words import time as times


def ago(timestamp: str | None) -> str:
    """How long ago it was, or in how long it will be."""
    return "-" if timestamp is None else times.ago(_seconds(timestamp), _now())


def since(timestamp: str | None) -> str:
    """Its age: "3 min"."""
    return "-" if timestamp is None else times.age(_now() - _seconds(timestamp))


def stamp(timestamp: str | None) -> str:
    """To the second: "2026-11-16 04:00:10Z"."""
    return "-" if timestamp is None else f"{timestamp[:10]} {timestamp[11:19]}Z"


def clock(timestamp: str | None, day: str | None = None) -> str:
    """To the millisecond: "04:00:10.517", with its date unless it lies on the day of `day`."""
    if timestamp is None:
        return "-"
    time = timestamp[11:23].rstrip("Z")
    return time if day is not None and timestamp[:10] == day[:10] else f"{timestamp[:10]} {time}"


def took(start: str | None, end: str | None) -> str:
    """From one to the other: "12 ms", "1.2 s", "3 min 20 s"."""
    return "-" if start is None or end is None else times.duration(_seconds(end) - _seconds(start))


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _now() -> float:
    return datetime.now(UTC).timestamp()
