"""The phases of a run: what it was doing at each moment, as consecutive intervals.

They are derived from stored data: attempts with the waits after them, holds, releases and replays. The engine
doesn't store when a full concurrency limit held a run, so only a current hold by a limit is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from redrive.engine.history import TimelineEvent
from redrive.engine.run_view import AttemptView, RunSummary
from redrive.engine.runs import Story
from redrive.model.run import Place, is_parked
from redrive.model.step import AttemptOutcome
from redrive.words.fact import text_of
from redrive.words.timeline import holder_name, unknown_work

QUEUED, WAITING, HELD, RUNNING, STOPPED = "queued", "waiting", "held", "running", "stopped"
_TURNS = {"held": HELD, "released": QUEUED, "replayed": QUEUED}


class Phase(NamedTuple):
    """An interval in which a step did one thing.

    kind     queued: ready, and no worker has it yet; waiting: for a retry, or for its time; held: by a
             breaker or a limit; running: an attempt; stopped: the run had ended, and was replayed later
    number   of the attempt
    outcome  of the attempt; empty while it is in progress
    detail   what held the work, or how the attempt failed
    """

    step_index: int
    kind: str
    since: float
    until: float
    number: int = 0
    outcome: str = ""
    detail: str = ""

    @property
    def seconds(self) -> float:
        return self.until - self.since


class _Turn(NamedTuple):
    """A moment at which the phase changes."""

    at: float
    kind: str
    detail: str = ""


def run_phases(run: RunSummary, story: Story, now: float) -> list[Phase]:
    """Return the phases in order; each starts where the one before it ends, up to `now` for a live run."""
    walk = _Walk(run.submitted_at, story.events)
    order = sorted(story.attempts, key=lambda attempt: (_start(attempt), attempt.step_index, attempt.number))
    for attempt in order:
        walk.rest(attempt.step_index, _start(attempt))
        walk.execute(attempt)
    if run.ended_at is None:
        walk.reach(run, now)
    elif not walk.over:
        walk.rest(run.step_index, run.ended_at)
    return walk.phases


def _start(attempt: AttemptView) -> float:
    return next((moment for moment in (attempt.started_at, attempt.ended_at) if moment is not None), 0.0)


class _Walk:
    """Walks through a run. `at`: the position; `due`: when the work is due; `over`: the run had ended."""

    def __init__(self, since: float, events: Iterable[TimelineEvent]) -> None:
        self.at = self.due = since
        self.over = False
        self.phases: list[Phase] = []
        self._turns = [
            _Turn(event.at, _TURNS[event.what], text_of(event.detail) if event.detail else "")
            for event in events
            if event.what in _TURNS
        ]

    def execute(self, attempt: AttemptView) -> None:
        until = max(self.at, self.at if attempt.ended_at is None else attempt.ended_at)
        self._add(
            Phase(
                attempt.step_index,
                RUNNING,
                self.at,
                until,
                attempt.number,
                str(attempt.outcome),
                attempt.error_type or "",
            )
        )
        self.due = until + (attempt.delay or 0.0)
        self.over = attempt.delay is None and attempt.outcome != AttemptOutcome.SUCCEEDED

    def rest(self, step: int, until: float, more: Sequence[_Turn] = ()) -> None:
        """Add the phases until then in which nothing was executed."""
        turns = [*self._first_turns(), *(turn for turn in self._turns if self.at < turn.at <= until), *more]
        turns = sorted(turns, key=lambda turn: turn.at)
        for turn, following in pairwise([*turns, _Turn(until, "")]):
            self._add_rest(step, turn, min(following.at, until))
        self.over = False

    def reach(self, run: RunSummary, now: float) -> None:
        """Add the current phase of a live run."""
        if run.place == Place.LEASED:
            started = now if run.attempt_started_at is None else min(run.attempt_started_at, now)
            self.rest(run.step_index, started)
            self._add(Phase(run.step_index, RUNNING, self.at, max(self.at, now), run.attempt))
            return
        self.due = max(self.due, now if is_parked(run.held_by) else run.due_at or 0.0)
        is_known = any(turn.kind == HELD and turn.at > self.at for turn in self._turns)
        held = run.place == Place.HELD and not is_known
        holder = run.held_by or ""
        detail = unknown_work(holder) or f"by {holder_name(holder)}"
        hold = [_Turn(max(self.at, self.due), HELD, detail)] if held else ()
        self.rest(run.step_index, now, hold)

    def _first_turns(self) -> list[_Turn]:
        if self.over:
            return [_Turn(self.at, STOPPED)]
        return [_Turn(self.at, WAITING), _Turn(max(self.at, self.due), QUEUED)]

    def _add_rest(self, step: int, turn: _Turn, until: float) -> None:
        if until > self.at:
            # A stopped run stays at the step where it ended, wherever a replay starts.
            where = self.phases[-1].step_index if turn.kind == STOPPED else step
            self._add(Phase(where, turn.kind, self.at, until, detail=turn.detail))

    def _add(self, phase: Phase) -> None:
        self.phases.append(phase)
        self.at = phase.until
