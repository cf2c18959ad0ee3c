"""The timeline of a run: one lane per step, drawn by parts/timeline.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import NamedTuple

from redrive.engine.run_queries import Story
from redrive.engine.run_view import RunSummary
from redrive.model.step import AttemptOutcome
from redrive.server.admin.axis import BrokenAxis, Tick
from redrive.server.admin.run_phases import HELD, QUEUED, RUNNING, STOPPED, WAITING, Phase, run_phases
from redrive.words.number import plural
from redrive.words.time import absolute, duration

_MIN_LABEL_WIDTH = 9.0
KINDS = {
    QUEUED: "queued",
    RUNNING: "running",
    WAITING: "waiting for its retry",
    HELD: "held",
    STOPPED: "stopped, until it was replayed",
}


class Segment(NamedTuple):
    """A phase as it is drawn; `x` and `width` are in percent. `broken`: it is cut short.

    title  what a browser shows where the pointer rests
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
    """`kinds` and `outcomes` are those that occur, for the legend."""

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
    kinds, outcomes = {phase.kind for phase in phases}, {phase.outcome for phase in phases}
    seconds = phases[-1].until - phases[0].since if phases else 0.0
    return RunTimeline(
        lanes,
        axis.ticks(zone),
        {kind: text for kind, text in KINDS.items() if kind in kinds},
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
        f"{attempts}, {duration(running)} running, {duration(resting)} at rest" if own else "not started"
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
