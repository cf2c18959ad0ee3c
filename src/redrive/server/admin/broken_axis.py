"""The axis of a timeline: linear, and broken where a few long waits would press everything else together.

No wait is then drawn wider than an eighth of the whole, and its real length is written beside the break.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise

from redrive.server.admin.axis import Tick, anchored, round_step, round_times, time_label
from redrive.server.admin.course import RUNNING, Stretch
from redrive.server.admin.words import duration, instant

WHOLE = 100.0
SHARE = 1 / 8
_CLOSE = 1.0
"""What lies nearer to its neighbour than this part of a hundred is hard to tell from it."""
_CROWDED = 0.25
_APART = 11.0
_SOON = 120.0


class BrokenAxis:
    """From moments to places, piece by piece: `edges` are pairs of both, in order."""

    def __init__(self, stretches: Sequence[Stretch], limit: float | None) -> None:
        self.limit = limit
        drawn = [self._drawn(each) for each in stretches]
        scale = WHOLE / (sum(drawn) or 1.0)
        self.edges = [(stretches[0].since if stretches else 0.0, 0.0)]
        for stretch, length in zip(stretches, drawn, strict=True):
            self.edges.append((stretch.until, min(WHOLE, self.edges[-1][1] + length * scale)))
        self.breaks = [(each.since, each.until) for each in stretches if self.breaks_in(each)]

    @classmethod
    def of(cls, stretches: Sequence[Stretch]) -> BrokenAxis:
        return cls(stretches, _limit(stretches) if _is_crowded(stretches) else None)

    @property
    def broken(self) -> bool:
        return bool(self.breaks)

    def breaks_in(self, stretch: Stretch) -> bool:
        return self.limit is not None and stretch.kind != RUNNING and stretch.seconds > self.limit

    def ticks(self, zone: tzinfo) -> list[Tick]:
        since, until = self.edges[0][0], self.edges[-1][0]
        if until <= since:
            return [Tick(0.0, _clock(since, zone), "start")]
        if self.broken:
            return self._after_breaks(zone)
        if until - since <= _SOON:
            return [
                self._tick(since + each, _since_start(each), at)
                for at, each in enumerate(_offsets(until - since))
            ]
        times = round_times(since, until, zone, 6)
        return [self._tick(each, time_label(each, zone), at) for at, each in enumerate(times)]

    def _after_breaks(self, zone: tzinfo) -> list[Tick]:
        """Where the axis goes on after a break, as far as there is room."""
        days = _day(self.edges[0][0], zone) != _day(self.edges[-1][0], zone)
        ticks = [self._tick(self.edges[0][0], _clock(self.edges[0][0], zone, day=days))]
        for _, moment in self.breaks:
            tick = self._tick(moment, _clock(moment, zone, day=days))
            if tick.place - ticks[-1].place >= _APART:
                ticks.append(tick)
        return [each._replace(spare=bool(at % 2)) for at, each in enumerate(ticks)]

    def _tick(self, moment: float, label: str, at: int = 0) -> Tick:
        return anchored(round(self.place(moment), 2), label, WHOLE, spare=bool(at % 2))

    def place(self, moment: float) -> float:
        for (since, left), (until, right) in pairwise(self.edges):
            if moment <= until:
                part = (moment - since) / (until - since) if until > since else 0.0
                return left + (right - left) * max(0.0, part)
        return self.edges[-1][1]

    def _drawn(self, stretch: Stretch) -> float:
        return min(stretch.seconds, self.limit or 0.0) if self.breaks_in(stretch) else stretch.seconds


def _is_crowded(stretches: Sequence[Stretch]) -> bool:
    """Would too many attempts lie so near to each other that nobody could tell them apart?"""
    starts = [each.since for each in stretches if each.kind == RUNNING]
    if len(starts) < 2:
        return False
    least = _CLOSE * (stretches[-1].until - stretches[0].since) / WHOLE
    near = [0.0 < later - earlier < least for earlier, later in pairwise(starts)]
    return sum(near) / len(near) > _CROWDED


def _limit(stretches: Sequence[Stretch]) -> float | None:
    """The length at which every longer wait is drawn, so that it takes no more than its share of the whole.

    With the k longest cut to it, limit = share × (the rest + k × limit). Before k shares are the whole, the
    limit is as long as all the rest together.
    """
    waits = sorted((each.seconds for each in stretches if each.kind != RUNNING), reverse=True)
    rest = sum(each.seconds for each in stretches)
    for cut, (longest, following) in enumerate(pairwise([*waits, 0.0]), 1):
        rest -= longest
        limit = SHARE * rest / (1 - cut * SHARE)
        if following <= limit or (cut + 1) * SHARE >= 1:
            return max(limit, following) or None
    return None


def _offsets(seconds: float) -> list[float]:
    step = round_step(seconds * 1000.0, 5) / 1000.0
    return [each * step for each in range(int(seconds / step + 1e-9) + 1)]


def _since_start(seconds: float) -> str:
    return "0" if seconds == 0 else f"+{duration(seconds)}"


def _day(moment: float, zone: tzinfo) -> object:
    return instant(moment).astimezone(zone).date()


def _clock(moment: float, zone: tzinfo, *, day: bool = False) -> str:
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day} {there:%H:%M}" if day else f"{there:%H:%M:%S}"
