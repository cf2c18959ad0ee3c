"""A run as a timeline: one lane a step, drawn by parts/timeline.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import NamedTuple

from redrive.engine.run_queries import Story
from redrive.engine.run_view import RunSummary
from redrive.model.attempt import AttemptOutcome
from redrive.server.admin.axis import Tick
from redrive.server.admin.broken_axis import BrokenAxis
from redrive.server.admin.course import HELD, QUEUED, RUNNING, STOPPED, WAITING, Stretch, course
from redrive.server.admin.words import absolute, duration, plural

_LABELLED = 9.0
SAID = {
    QUEUED: "queued",
    RUNNING: "running",
    WAITING: "waiting for its retry",
    HELD: "held",
    STOPPED: "stopped, until it was replayed",
}


class Segment(NamedTuple):
    """`x` and `width` are in percent. `broken`: it is drawn shorter than the axis says."""

    kind: str
    x: float
    width: float
    told: str
    label: str = ""
    outcome: str = ""
    number: int = 0
    broken: bool = False


class Lane(NamedTuple):
    """`running` is the time that attempts took; `resting`, all other time."""

    step_index: int
    name: str
    state: str
    segments: Sequence[Segment]
    told: str
    running: float
    resting: float

    @property
    def attempts(self) -> list[Segment]:
        return [each for each in self.segments if each.kind == RUNNING]


class Timeline(NamedTuple):
    """`kinds` and `outcomes` are those that occur, for the legend."""

    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    kinds: Mapping[str, str]
    outcomes: Sequence[str]
    seconds: float
    broken: bool
    live: bool


def timeline(run: RunSummary, story: Story, now: float, zone: tzinfo) -> Timeline:
    stretches = course(run, story, now)
    axis = BrokenAxis.of(stretches)
    lanes = [
        _lane(step.step_index, step.name, str(step.state), stretches, axis, zone) for step in story.steps
    ]
    kinds, outcomes = {each.kind for each in stretches}, {each.outcome for each in stretches}
    seconds = stretches[-1].until - stretches[0].since if stretches else 0.0
    return Timeline(
        lanes,
        axis.ticks(zone),
        {each: said for each, said in SAID.items() if each in kinds},
        [each for each in AttemptOutcome if each in outcomes],
        seconds,
        axis.broken,
        run.ended_at is None,
    )


def _lane(
    index: int, name: str, state: str, stretches: Sequence[Stretch], axis: BrokenAxis, zone: tzinfo
) -> Lane:
    own = [each for each in stretches if each.step_index == index]
    running = sum(each.seconds for each in own if each.kind == RUNNING)
    resting = sum(each.seconds for each in own if each.kind != RUNNING)
    number = sum(each.kind == RUNNING for each in own)
    said = f"{plural(number, 'attempt')}, {duration(running)} running, {duration(resting)} at rest"
    told = f"{name}: {said if own else 'not begun'}"
    return Lane(index, name, state, [_segment(each, axis, zone) for each in own], told, running, resting)


def _segment(stretch: Stretch, axis: BrokenAxis, zone: tzinfo) -> Segment:
    left, right = axis.place(stretch.since), axis.place(stretch.until)
    x, width = round(left, 3), round(max(0.0, right - left), 3)
    label = duration(stretch.seconds) if width >= _LABELLED else ""
    return Segment(
        stretch.kind,
        x,
        width,
        _told(stretch, zone),
        label,
        stretch.outcome,
        stretch.number,
        axis.breaks_in(stretch),
    )


def _told(stretch: Stretch, zone: tzinfo) -> str:
    return "\n".join(
        [_said(stretch), f"for {duration(stretch.seconds)}", f"from {absolute(stretch.since, zone)}"]
    )


def _said(stretch: Stretch) -> str:
    if stretch.kind != RUNNING:
        return f"{SAID[stretch.kind]} {stretch.detail}".strip()
    said = f"attempt {stretch.number} {stretch.outcome or 'is running'}"
    return f"{said}: {stretch.detail}" if stretch.detail else said
