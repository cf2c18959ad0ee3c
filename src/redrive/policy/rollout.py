"""The rollout of a bulk replay: a canary first, then the remaining items, with a stop on failures.

    canary   a few items; the remaining items start only after all of them have finished
    ramp     the remaining items, at a rate or as fast as workers execute them; more at once as items finish
    stop     after too many failures, repeated failures or an open breaker; a person decides how to continue
    finish   when no item is left to start and none is in progress

Resuming a stopped operation pardons its earlier failures: the operation starts with a canary again, and
counts only later items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import floor
from typing import Any, NamedTuple

from redrive.model.fact import Fact, fact
from redrive.policy.bounds import require, require_kind, require_whole
from redrive.policy.codec import JsonValue

MAX_BATCH_SIZE = 1_000
FIRST_RUNNING, MAX_RUNNING = 500, 2_000
"""How many items may be in progress at first, and when many have finished."""
POLL_SECONDS = 0.2
BURST_SECONDS = 1.0
MAX_WAIT_SECONDS, MIN_WAIT_SECONDS = 1.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """How carefully a bulk replay proceeds, and when it stops automatically.

    canary           the number of items that must finish before the remaining items start
    rate             items per second after the canary; None: as fast as workers execute them
    failure_rate     the share of failures among finished items above which the operation stops
    minimum          the number of finished items before `failure_rate` applies; a whole canary always counts
    same_failures    the number of items with the same failure as before at which it stops; None: no limit
    stop_on_breaker  stop when a breaker opens on which the remaining items depend
    """

    canary: int = 10
    rate: float | None = None
    failure_rate: float = 0.2
    minimum: int = 10
    same_failures: int | None = 5
    stop_on_breaker: bool = True

    def __post_init__(self) -> None:
        require_whole("canary", self.canary, 0, 100_000)
        if self.rate is not None:
            require("rate", self.rate, 0.001, 100_000.0)
        require("failure_rate", self.failure_rate, 0.0, 1.0)
        require_whole("minimum", self.minimum, 1, 100_000)
        if self.same_failures is not None:
            require_whole("same_failures", self.same_failures, 1, 100_000)
        require_kind("stop_on_breaker", self.stop_on_breaker, bool)


class Score(NamedTuple):
    """The results of the items. `repeated` counts failed items with the same failure as before."""

    begun: int = 0
    succeeded: int = 0
    failed: int = 0
    repeated: int = 0

    @property
    def judged(self) -> int:
        return self.succeeded + self.failed

    def since(self, earlier: Score) -> Score:
        return Score(*(max(0, now - past) for now, past in zip(self, earlier, strict=True)))


class RolloutPlan(NamedTuple):
    """The options of an operation, and the part of its score that no longer counts."""

    options: RolloutOptions
    pardoned: Score = Score()

    def to_json(self) -> dict[str, JsonValue]:
        return {**asdict(self.options), "pardoned": list(self.pardoned)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RolloutPlan:
        options = {name: value for name, value in stored.items() if name != "pardoned"}
        return cls(RolloutOptions(**options), Score(*stored["pardoned"]))


class RolloutFigures(NamedTuple):
    """An operation at one moment.

    score         the results of its items, without pardoned ones
    ready         items that can start now, counted up to a batch
    running       items in progress
    ramping       whether the canary is over
    released_at   the time from which the rate grants further items
    open_breaker  the name of an open breaker on which the remaining items depend
    """

    score: Score
    ready: int
    running: int
    ramping: bool
    released_at: float | None = None
    open_breaker: str | None = None


class ItemRelease(NamedTuple):
    """Start `number` items; the rate grants further items from `released_at` on."""

    number: int
    released_at: float


class RolloutWait(NamedTuple):
    seconds: float


class CanaryPassed(NamedTuple):
    """The canary succeeded; the ramp starts."""


class Stop(NamedTuple):
    reason: Fact


class Finish(NamedTuple):
    """The operation is finished: no planned item can start."""


Move = ItemRelease | RolloutWait | CanaryPassed | Stop | Finish


def next_move(figures: RolloutFigures, options: RolloutOptions, now: float) -> Move:
    if not figures.ready:
        return RolloutWait(POLL_SECONDS) if figures.running else Finish()
    reason = _reason_to_stop(figures, options)
    if reason is not None:
        return Stop(reason)
    if not figures.ramping:
        return _in_canary(figures, options, now)
    return _in_ramp(figures, options.rate, now)


def _in_canary(figures: RolloutFigures, options: RolloutOptions, now: float) -> Move:
    missing = options.canary - figures.score.begun
    if missing > 0:
        return _released(figures, missing, now)
    return RolloutWait(POLL_SECONDS) if figures.running else CanaryPassed()


def _in_ramp(figures: RolloutFigures, rate: float | None, now: float) -> Move:
    if rate is None:
        return _released(figures, MAX_BATCH_SIZE, now)
    since = _credited_since(figures.released_at, rate, now)
    credit = (now - since) * rate
    # Round before flooring: a credit of 0.9999999999 is a whole item.
    number = floor(round(credit, 6))
    if number < 1:
        return RolloutWait(min(MAX_WAIT_SECONDS, max(MIN_WAIT_SECONDS, (1.0 - credit) / rate)))
    move = _released(figures, number, now)
    return (
        move
        if isinstance(move, RolloutWait)
        else ItemRelease(move.number, min(now, since + move.number / rate))
    )


def _credited_since(released_at: float | None, rate: float, now: float) -> float:
    """Return the time from which the rate grants items.

    Unused time accumulates for at most a second, or one item, so that a pause causes no burst.
    """
    oldest = now - max(BURST_SECONDS, 1.0 / rate)
    return oldest if released_at is None else min(now, max(oldest, released_at))


def _released(figures: RolloutFigures, wanted: int, now: float) -> ItemRelease | RolloutWait:
    number = min(wanted, figures.ready, MAX_BATCH_SIZE, _max_running(figures.score) - figures.running)
    return ItemRelease(number, now) if number > 0 else RolloutWait(POLL_SECONDS)


def _max_running(score: Score) -> int:
    """Limit the items in progress, which cannot be stopped, to the number of finished ones."""
    return min(MAX_RUNNING, max(FIRST_RUNNING, score.judged))


def _reason_to_stop(figures: RolloutFigures, options: RolloutOptions) -> Fact | None:
    score = figures.score
    if options.stop_on_breaker and figures.open_breaker is not None:
        return fact("breaker_opened", breaker=figures.open_breaker)
    if options.same_failures is not None and score.repeated >= options.same_failures:
        return fact("same_failures", items=score.repeated)
    if score.judged < _enough(figures, options) or score.failed <= options.failure_rate * score.judged:
        return None
    return fact("too_many_failed", failed=score.failed, finished=score.judged, limit=options.failure_rate)


def _enough(figures: RolloutFigures, options: RolloutOptions) -> int:
    """Return the number of items that must finish before `failure_rate` applies."""
    whole_canary = figures.score.begun >= options.canary and not figures.running
    return 1 if not figures.ramping and whole_canary else options.minimum
