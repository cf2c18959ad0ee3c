"""Columns of a table, and the format of API values in cells: "3 min ago", "2026-11-16 04:00:10Z", "yes"."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from redrive.cli.terminal import escape
from redrive.words import time as times

Row = dict[str, Any]


class TableColumn(NamedTuple):
    """A column of a list.

    name   of the field
    title  in the table header; by default the name
    short  formats the value for a table; other formats have the raw value
    whole  never truncate it, so that it can be copied
    shown  the field that a table has instead; other formats have `name`
    """

    name: str
    title: str = ""
    short: Callable[[Any], str] | None = None
    whole: bool = False
    shown: str = ""

    @property
    def heading(self) -> str:
        return (self.title or (self.shown or self.name).replace("_", " ")).upper()

    def cell(self, row: Row) -> str:
        value = row.get(self.shown or self.name)
        return self.short(value) if self.short is not None and value is not None else plain_text(value)


def plain_text(value: object) -> str:
    """Format a value on one line."""
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
    """Say how long ago it was, or when it will be: "3 min ago", "in 20 s"."""
    return "-" if timestamp is None else times.ago(_seconds(timestamp), _now())


def is_future(timestamp: str) -> bool:
    """Return whether `ago` says when it will be."""
    return _seconds(timestamp) - _now() >= 1.0


def since(timestamp: str | None) -> str:
    """Format the age: "3 min"."""
    return "-" if timestamp is None else times.age(_now() - _seconds(timestamp))


def stamp(timestamp: str | None) -> str:
    """Format to the second: "2026-11-16 04:00:10Z"."""
    return "-" if timestamp is None else f"{timestamp[:10]} {timestamp[11:19]}Z"


def clock(timestamp: str | None, day: str | None = None) -> str:
    """Format to the millisecond: "04:00:10.517", with the date unless it is on the same day as `day`."""
    if timestamp is None:
        return "-"
    time = timestamp[11:23].rstrip("Z")
    return time if day is not None and timestamp[:10] == day[:10] else f"{timestamp[:10]} {time}"


def took(start: str | None, end: str | None) -> str:
    """Format the time between two moments: "12 ms", "1.2 s", "3 min 20 s"."""
    return "-" if start is None or end is None else times.duration(_seconds(end) - _seconds(start))


def counted(found: Row) -> str:
    """Format a count of the API, which stops counting at a limit: "12", "more than 10,000"."""
    return f"more than {found['number']:,}" if found["capped"] else f"{found['number']:,}"


def short_fingerprint(fingerprint: str) -> str:
    """Shorten a fingerprint to what identifies the group."""
    return fingerprint.partition(":")[2][:12] or fingerprint


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _now() -> float:
    return datetime.now(UTC).timestamp()
