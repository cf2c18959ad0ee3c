"""Axes: round numbers and round times, as somebody would write them beside a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from math import ceil, floor, log10
from typing import NamedTuple

from redrive.server.admin.words import instant

_STEPS = (
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_419_200),
)
_DAY = 86_400


class Tick(NamedTuple):
    """
    place   where it lies, in the measure of the drawing
    anchor  how its text stands to that: start, middle or end, so that none is cut off at the edge
    spare   it is left out where there is little room
    """

    place: float
    label: str
    anchor: str = "middle"
    spare: bool = False


def round_step(most: float, number: int = 4) -> float:
    """The smallest of 1, 2, 5, 10, 20 ... that reaches `most` in that many steps."""
    if most <= number:
        return 1.0
    magnitude = 10.0 ** floor(log10(most / number))
    return next(
        each * magnitude for each in (1, 2, 5, 10, 20) if each * magnitude * number >= most * (1 - 1e-9)
    )


def round_numbers(most: float, number: int = 4) -> list[int]:
    """0, 5, 10, 15: from nothing to the first round number that is not below `most`."""
    step = round_step(most, number)
    return [int(each * step) for each in range(max(1, ceil(most / step - 1e-9)) + 1)]


def amount(value: float) -> str:
    """Short enough for an axis: 950, 1.2k, 30k, 4M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"


def round_times(since: float, until: float, zone: tzinfo, most: int = 8) -> list[float]:
    """Full minutes, hours or days of that zone, at most so many."""
    wide = next((each for each in _STEPS if (until - since) / each <= most), None)
    if wide is None or until <= since:
        return []
    return [each for each in _rounds(since, until, zone, wide) if since <= each <= until]


def time_label(moment: float, zone: tzinfo) -> str:
    """The time of day; at midnight the day."""
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day}" if (there.hour, there.minute) == (0, 0) else f"{there:%H:%M}"


def anchored(place: float, label: str, whole: float, spare: bool = False) -> Tick:
    """Near an edge a text leans inwards."""
    if place < 0.04 * whole:
        return Tick(place, label, "start", spare)
    return Tick(place, label, "end" if place > 0.96 * whole else "middle", spare)


def _rounds(since: float, until: float, zone: tzinfo, step: int) -> Iterator[float]:
    """By the clock on the wall: where it is put forward or back, the next ones are full hours again."""
    before = 0.0
    for midnight in _midnights(since, until, zone, max(1, step // _DAY)):
        for seconds in range(0, _DAY, min(step, _DAY)):
            moment = _on_the_wall(midnight + timedelta(seconds=seconds), zone)
            if moment > before:
                yield moment
                before = moment


def _midnights(since: float, until: float, zone: tzinfo, days: int) -> Iterator[datetime]:
    """The beginning of every so many days, counted from the same day on whatever is looked at."""
    day = instant(since).astimezone(zone).date()
    day -= timedelta(days=day.toordinal() % days)
    last = instant(until).astimezone(zone).date()
    while day <= last:
        yield datetime(day.year, day.month, day.day)  # noqa: DTZ001 — the zone is put to it with the time of day
        day += timedelta(days=days)


def _on_the_wall(there: datetime, zone: tzinfo) -> float:
    return there.replace(tzinfo=zone).astimezone(UTC).timestamp()
