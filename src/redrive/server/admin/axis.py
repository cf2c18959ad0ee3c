"""Axes of charts and timelines: round numbers, round times, and a time axis that cuts long waits short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

from redrive.server.admin.run_phases import RUNNING, Phase
from redrive.words.time import duration, instant

_STEPS = (
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_419_200),
)
_DAY = 86_400

WHOLE = 100.0
MAX_SHARE = 1 / 8
"""The widest part of a broken axis that a single wait takes."""
_MIN_DISTANCE = 1.0
"""Attempts that are closer to each other, in hundredths of the axis, are hard to tell apart."""
_MAX_CROWDED = 0.25
_MIN_TICK_DISTANCE = 11.0
_SHORT_SECONDS = 120.0


class Tick(NamedTuple):
    """
    place   the position, in units of the drawing
    anchor  how the label is aligned to it: start, middle or end, so that none is cut off at the edge
    spare   a narrow screen leaves it out
    """

    place: float
    label: str
    anchor: str = "middle"
    spare: bool = False


def round_step(most: float, number: int = 4) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 ... that reaches `most` in that many steps."""
    if most <= number:
        return 1.0
    magnitude = 10.0 ** floor(log10(most / number))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10, 20) if factor * magnitude * number >= most * (1 - 1e-9)
    )


def round_numbers(most: float, number: int = 4) -> list[int]:
    """Return 0, 5, 10, 15: from zero to the first round number that is not below `most`."""
    step = round_step(most, number)
    return [int(index * step) for index in range(max(1, ceil(most / step - 1e-9)) + 1)]


def amount(value: float) -> str:
    """Format a number for an axis: 950, 1.2k, 30k, 4M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"


def round_times(since: float, until: float, zone: tzinfo, most: int = 8) -> list[float]:
    """Return at most `most` full minutes, hours or days of that zone."""
    step = next((seconds for seconds in _STEPS if (until - since) / seconds <= most), None)
    if step is None or until <= since:
        return []
    return [moment for moment in _wall_times(since, until, zone, step) if since <= moment <= until]


def time_label(moment: float, zone: tzinfo) -> str:
    """Return the time of day, or at midnight the day."""
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day}" if (there.hour, there.minute) == (0, 0) else f"{there:%H:%M}"


def anchored(place: float, label: str, whole: float, spare: bool = False) -> Tick:
    """Return a tick whose label leans inwards near an edge."""
    if place < 0.04 * whole:
        return Tick(place, label, "start", spare)
    return Tick(place, label, "end" if place > 0.96 * whole else "middle", spare)


def _wall_times(since: float, until: float, zone: tzinfo, step: int) -> Iterator[float]:
    """Follow the clock on the wall: after a change of summer time, the next ones are full hours again."""
    before = 0.0
    for midnight in _midnights(since, until, zone, max(1, step // _DAY)):
        for seconds in range(0, _DAY, min(step, _DAY)):
            there = midnight + timedelta(seconds=seconds)
            moment = there.replace(tzinfo=zone).astimezone(UTC).timestamp()
            if moment > before:
                yield moment
                before = moment


def _midnights(since: float, until: float, zone: tzinfo, days: int) -> Iterator[datetime]:
    """Yield the start of every `days`-th day, counted from the same day whatever the range is."""
    day = instant(since).astimezone(zone).date()
    day -= timedelta(days=day.toordinal() % days)
    last = instant(until).astimezone(zone).date()
    while day <= last:
        yield datetime(day.year, day.month, day.day)  # noqa: DTZ001 — the zone is put to it with the time of day
        day += timedelta(days=days)


class BrokenAxis:
    """The axis of a timeline: linear, and broken where a few long waits would press everything else together.

    No wait is then drawn wider than `MAX_SHARE` of the whole; its real length stands beside the break.
    `edges` are pairs of a moment and its place, in order.
    """

    def __init__(self, phases: Sequence[Phase], limit: float | None) -> None:
        self.limit = limit
        lengths = [self._drawn_seconds(phase) for phase in phases]
        scale = WHOLE / (sum(lengths) or 1.0)
        self.edges = [(phases[0].since if phases else 0.0, 0.0)]
        for phase, length in zip(phases, lengths, strict=True):
            self.edges.append((phase.until, min(WHOLE, self.edges[-1][1] + length * scale)))
        self.breaks = [(phase.since, phase.until) for phase in phases if self.breaks_in(phase)]

    @classmethod
    def of(cls, phases: Sequence[Phase]) -> BrokenAxis:
        return cls(phases, _limit(phases) if _is_crowded(phases) else None)

    @property
    def broken(self) -> bool:
        return bool(self.breaks)

    def breaks_in(self, phase: Phase) -> bool:
        return self.limit is not None and phase.kind != RUNNING and phase.seconds > self.limit

    def ticks(self, zone: tzinfo) -> list[Tick]:
        since, until = self.edges[0][0], self.edges[-1][0]
        if until <= since:
            return [Tick(0.0, _clock(since, zone), "start")]
        if self.broken:
            return self._ticks_after_breaks(zone)
        if until - since <= _SHORT_SECONDS:
            return [
                self._tick(since + offset, "0" if offset == 0 else f"+{duration(offset)}", index)
                for index, offset in enumerate(_offsets(until - since))
            ]
        times = round_times(since, until, zone, 6)
        return [self._tick(moment, time_label(moment, zone), index) for index, moment in enumerate(times)]

    def _ticks_after_breaks(self, zone: tzinfo) -> list[Tick]:
        """Put a tick where the axis continues after a break, as far as there is room."""
        start, end = self.edges[0][0], self.edges[-1][0]
        days = instant(start).astimezone(zone).date() != instant(end).astimezone(zone).date()
        ticks = [self._tick(start, _clock(start, zone, day=days))]
        for _, moment in self.breaks:
            tick = self._tick(moment, _clock(moment, zone, day=days))
            if tick.place - ticks[-1].place >= _MIN_TICK_DISTANCE:
                ticks.append(tick)
        return [tick._replace(spare=bool(index % 2)) for index, tick in enumerate(ticks)]

    def _tick(self, moment: float, label: str, index: int = 0) -> Tick:
        return anchored(round(self.place(moment), 2), label, WHOLE, spare=bool(index % 2))

    def place(self, moment: float) -> float:
        for (since, left), (until, right) in pairwise(self.edges):
            if moment <= until:
                part = (moment - since) / (until - since) if until > since else 0.0
                return left + (right - left) * max(0.0, part)
        return self.edges[-1][1]

    def _drawn_seconds(self, phase: Phase) -> float:
        return min(phase.seconds, self.limit or 0.0) if self.breaks_in(phase) else phase.seconds


def _is_crowded(phases: Sequence[Phase]) -> bool:
    """Would too many attempts be too close to each other to tell them apart?"""
    starts = [phase.since for phase in phases if phase.kind == RUNNING]
    if len(starts) < 2:
        return False
    distance = _MIN_DISTANCE * (phases[-1].until - phases[0].since) / WHOLE
    close = [0.0 < later - earlier < distance for earlier, later in pairwise(starts)]
    return sum(close) / len(close) > _MAX_CROWDED


def _limit(phases: Sequence[Phase]) -> float | None:
    """Return the length at which every longer wait is drawn, so that it takes at most its share of the whole.

    With the k longest cut to it, limit = share × (the rest + k × limit). Before k shares are the whole, the
    limit is as long as all the rest together.
    """
    waits = sorted((phase.seconds for phase in phases if phase.kind != RUNNING), reverse=True)
    rest = sum(phase.seconds for phase in phases)
    for cut, (longest, following) in enumerate(pairwise([*waits, 0.0]), 1):
        rest -= longest
        limit = MAX_SHARE * rest / (1 - cut * MAX_SHARE)
        if following <= limit or (cut + 1) * MAX_SHARE >= 1:
            return max(limit, following) or None
    return None


def _offsets(seconds: float) -> list[float]:
    step = round_step(seconds * 1000.0, 5) / 1000.0
    return [index * step for index in range(int(seconds / step + 1e-9) + 1)]


def _clock(moment: float, zone: tzinfo, *, day: bool = False) -> str:
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day} {there:%H:%M}" if day else f"{there:%H:%M:%S}"
