"""Columns of a table, and how its cells show the API's values: "3 min ago", "2026-11-16 04:00:10Z", "yes"."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from redrive.cli.terminal import escape
from redrive.words import time as times

Row = dict[str, Any]


class TableColumn(NamedTuple):
    """
    name   of the field
    title  above it in a table
    short  how a table shows its value; programs get the raw value
    whole  never truncated, so that it can be copied
    """

    name: str
    title: str = ""
    short: Callable[[Any], str] | None = None
    whole: bool = False

    @property
    def heading(self) -> str:
        return (self.title or self.name.replace("_", " ")).upper()

    def cell(self, row: Row) -> str:
        value = row.get(self.name)
        return self.short(value) if self.short is not None and value is not None else plain_text(value)


def plain_text(value: object) -> str:
    """A value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(escape, value)) or "-"
    if isinstance(value, dict):
        return escape(json.dumps(value)) if value else "-"
    return escape(value)


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


def counted(found: Row) -> str:
    """A number of the API, which stops counting at a limit: "12", "more than 10,000"."""
    return f"more than {found['number']:,}" if found["capped"] else f"{found['number']:,}"


def short_fingerprint(fingerprint: str) -> str:
    """Enough of it to name the group."""
    return fingerprint.partition(":")[2][:12] or fingerprint


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _now() -> float:
    return datetime.now(UTC).timestamp()
