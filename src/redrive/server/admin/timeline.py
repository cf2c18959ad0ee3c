"""The timeline of a run: one lane per step on an axis that cuts long waits short.

parts/timeline.html draws it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, tzinfo
from itertools import pairwise
from typing import NamedTuple

from redrive.engine.run_view import RunSummary
from redrive.engine.runs import Story
from redrive.model.step import AttemptOutcome
from redrive.server.admin.chart import Tick, anchored, round_step, round_times, time_label
from redrive.server.admin.run_phases import HELD, QUEUED, RUNNING, STOPPED, WAITING, Phase, run_phases
from redrive.words.number import plural
from redrive.words.time import absolute, duration, instant

WHOLE = 100.0
MAX_SHARE = 1 / 8
"""The maximum share of a broken axis that one wait takes."""
_MIN_DISTANCE = 1.0
"""The minimum distance of attempts that are easy to tell apart, in hundredths of the axis."""
_MAX_CROWDED = 0.25
_MIN_TICK_DISTANCE = 11.0
_SHORT_SECONDS = 120.0
_MIN_LABEL_WIDTH = 9.0
KINDS = {
    QUEUED: "queued",
    RUNNING: "running",
    WAITING: "waiting for retry",
    HELD: "held",
    STOPPED: "stopped until replayed",
}


class Segment(NamedTuple):
    """A drawn phase; `x` and `width` are in percent. `broken`: it is cut short.

    title  the tooltip
    """

    kind: str
    x: float
    width: float
    title: str
    label: str = ""
    outcome: str = ""
    number: int = 0
    broken: bool = False


class Lane(NamedTuple):
    """`running` is the time that attempts took, `resting` all other time."""

    step_index: int
    name: str
    state: str
    segments: Sequence[Segment]
    title: str
    running: float
    resting: float

    @property
    def attempts(self) -> list[Segment]:
        return [segment for segment in self.segments if segment.kind == RUNNING]


class RunTimeline(NamedTuple):
    """`kinds` and `outcomes` are the ones in this run, for the legend."""

    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    kinds: Mapping[str, str]
    outcomes: Sequence[str]
    seconds: float
    broken: bool
    live: bool


def timeline(run: RunSummary, story: Story, now: float, zone: tzinfo) -> RunTimeline:
    phases = run_phases(run, story, now)
    axis = BrokenAxis.of(phases)
    lanes = [_lane(step.step_index, step.name, str(step.state), phases, axis, zone) for step in story.steps]
    outcomes = {phase.outcome for phase in phases}
    # A finished attempt has the color of its outcome.
    kinds = {phase.kind for phase in phases if phase.kind != RUNNING or not phase.outcome}
    seconds = phases[-1].until - phases[0].since if phases else 0.0
    return RunTimeline(
        lanes,
        axis.ticks(zone),
        {kind: "on hold" if kind == HELD else text for kind, text in KINDS.items() if kind in kinds},
        [outcome for outcome in AttemptOutcome if outcome in outcomes],
        seconds,
        axis.broken,
        run.ended_at is None,
    )


def _lane(index: int, name: str, state: str, phases: Sequence[Phase], axis: BrokenAxis, zone: tzinfo) -> Lane:
    own = [phase for phase in phases if phase.step_index == index]
    running = sum(phase.seconds for phase in own if phase.kind == RUNNING)
    resting = sum(phase.seconds for phase in own if phase.kind != RUNNING)
    attempts = plural(sum(phase.kind == RUNNING for phase in own), "attempt")
    summary = (
        f"{attempts}, {duration(running)} running, {duration(resting)} waiting" if own else "not started"
    )
    segments = [_segment(phase, axis, zone) for phase in own]
    return Lane(index, name, state, segments, f"{name}: {summary}", running, resting)


def _segment(phase: Phase, axis: BrokenAxis, zone: tzinfo) -> Segment:
    left, right = axis.place(phase.since), axis.place(phase.until)
    width = round(max(0.0, right - left), 3)
    lines = (_text(phase), f"for {duration(phase.seconds)}", f"from {absolute(phase.since, zone)}")
    return Segment(
        phase.kind,
        round(left, 3),
        width,
        "\n".join(lines),
        duration(phase.seconds) if width >= _MIN_LABEL_WIDTH else "",
        phase.outcome,
        phase.number,
        axis.breaks_in(phase),
    )


def _text(phase: Phase) -> str:
    if phase.kind != RUNNING:
        return f"{KINDS[phase.kind]} {phase.detail}".strip()
    attempt = f"attempt {phase.number} {phase.outcome or 'is running'}"
    return f"{attempt}: {phase.detail}" if phase.detail else attempt


# The axis


class BrokenAxis:
    """The axis of a timeline: linear, and broken where a few long waits would compress everything else.

    No wait is then drawn wider than `MAX_SHARE` of the whole; its label has the real length.
    `edges` are pairs of a moment and its position, in order.
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
        """Put a tick where the axis continues after a break, if there is room. A new day is named once."""
        start, end = self.edges[0][0], self.edges[-1][0]
        ticks = [self._tick(start, _clock(start, zone, day=_day(start, zone) != _day(end, zone)))]
        before = start
        for _, moment in self.breaks:
            tick = self._tick(moment, _clock(moment, zone, day=_day(moment, zone) != _day(before, zone)))
            if tick.place - ticks[-1].place >= _MIN_TICK_DISTANCE:
                ticks.append(tick)
                before = moment
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
    """Return whether too many attempts would be too close to tell apart."""
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


def _day(moment: float, zone: tzinfo) -> date:
    return instant(moment).astimezone(zone).date()


def _clock(moment: float, zone: tzinfo, *, day: bool = False) -> str:
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day} {there:%H:%M}" if day else f"{there:%H:%M:%S}"
