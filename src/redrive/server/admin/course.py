"""The course of a run: what its work was doing at every moment, as stretches of time without gaps.

It is put together from what the engine has written down: attempts with the wait that was decided on after
them, what held the work and let it go, and replays. What a full limit holds back is not written down; of
that, only the present is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from redrive.engine.history import Happening
from redrive.engine.run_queries import Story
from redrive.engine.run_view import AttemptView, RunSummary
from redrive.model.attempt import AttemptOutcome
from redrive.model.run import Place

QUEUED, WAITING, HELD, RUNNING, STOPPED = "queued", "waiting", "held", "running", "stopped"
_TURNS = {"held": HELD, "released": QUEUED, "replayed": QUEUED}


class Stretch(NamedTuple):
    """
    kind     queued: it could be executed, and was not yet; waiting: for a retry, or for its time; held: by a
             breaker or a limit; running: an attempt; stopped: it had ended, and was sent on again later
    number   of the attempt
    outcome  of the attempt; empty while it goes on
    detail   what held it, or how the attempt failed
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
    at: float
    kind: str
    detail: str = ""


def course(run: RunSummary, story: Story, now: float) -> list[Stretch]:
    """In order of time, each where the one before it ends; up to `now` while the run is live."""
    walk = _Walk(run.submitted_at, story.events)
    for each in sorted(story.attempts, key=_order):
        walk.rest(each.step_index, _start(each))
        walk.execute(each)
    if run.ended_at is None:
        walk.reach(run, now)
    elif not walk.over:
        walk.rest(run.step_index, run.ended_at)
    return walk.stretches


def _order(attempt: AttemptView) -> tuple[float, int, int]:
    return _start(attempt), attempt.step_index, attempt.number


def _start(attempt: AttemptView) -> float:
    return next((each for each in (attempt.started_at, attempt.ended_at) if each is not None), 0.0)


class _Walk:
    """Goes through a run. `at` is how far it has come; `due`, when its work is due; `over`: it had ended."""

    def __init__(self, since: float, events: Iterable[Happening]) -> None:
        self.at = self.due = since
        self.over = False
        self.stretches: list[Stretch] = []
        self._turns = [
            _Turn(each.at, _TURNS[each.what], each.detail) for each in events if each.what in _TURNS
        ]

    def execute(self, each: AttemptView) -> None:
        until = max(self.at, self.at if each.ended_at is None else each.ended_at)
        detail = each.error_type or ""
        self._add(Stretch(each.step_index, RUNNING, self.at, until, each.number, str(each.outcome), detail))
        self.due = until + (each.delay or 0.0)
        self.over = each.delay is None and each.outcome != AttemptOutcome.SUCCEEDED

    def rest(self, step: int, until: float, more: Sequence[_Turn] = ()) -> None:
        """What it did until then without being executed."""
        turns = [*self._beginning(), *(each for each in self._turns if self.at < each.at <= until), *more]
        turns = sorted(turns, key=lambda each: each.at)
        for turn, following in pairwise([*turns, _Turn(until, "")]):
            self._lie(step, turn, min(following.at, until))
        self.over = False

    def reach(self, run: RunSummary, now: float) -> None:
        """The present of a run that is live."""
        if run.place == Place.LEASED:
            self.rest(
                run.step_index, now if run.attempt_started_at is None else min(run.attempt_started_at, now)
            )
            self._add(Stretch(run.step_index, RUNNING, self.at, max(self.at, now), run.attempt))
            return
        self.due = max(self.due, run.due_at or 0.0)
        held = run.place == Place.HELD and not any(
            each.kind == HELD and each.at > self.at for each in self._turns
        )
        self.rest(
            run.step_index, now, [_Turn(max(self.at, self.due), HELD, f"by {run.held_by}")] if held else ()
        )

    def _beginning(self) -> list[_Turn]:
        if self.over:
            return [_Turn(self.at, STOPPED)]
        return [_Turn(self.at, WAITING), _Turn(max(self.at, self.due), QUEUED)]

    def _lie(self, step: int, turn: _Turn, until: float) -> None:
        if until > self.at:
            # What had ended lay where it ended, wherever it was sent on from.
            where = self.stretches[-1].step_index if turn.kind == STOPPED else step
            self._add(Stretch(where, turn.kind, self.at, until, detail=turn.detail))

    def _add(self, stretch: Stretch) -> None:
        self.stretches.append(stretch)
        self.at = stretch.until
