"""How a bulk replay goes on: a few items first, the others when these went well, and not beyond a failure.

    canary   so many items; nothing more is begun before all of them have ended
    ramp     the others, at a rate or as fast as they are executed: more under way at once the more went well
    stop     too many failures, the same failures as before, or an open breaker: a person decides
    finish   nothing is left to be begun, and nothing is under way

A person who resumes an operation that has stopped itself pardons what has failed until then: it begins with a
canary again, and is judged by what happens from there on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import floor
from typing import Any, NamedTuple

from redrive.policy.bounds import require, require_kind, require_whole
from redrive.policy.codec import decode, encode
from redrive.words.number import plural

MAX_BATCH_SIZE = 500
MAX_RUNNING = 2_000
POLL_SECONDS = 0.2
BURST_SECONDS = 1.0
MAX_WAIT_SECONDS, MIN_WAIT_SECONDS = 1.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """
    canary           so many items are replayed first, and must end before the others begin
    rate             items a second after that; None: as fast as they are executed
    failure_rate     it stops when more than this part of the items that have ended failed
    minimum          it is not judged so before as many have ended, unless they are the whole canary
    same_failures    it stops when so many have failed just as they had before; None: it does not
    stop_on_breaker  it stops when a breaker is open that its remaining items depend on
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
    """What came of the items. `repeated`: of the failed ones, those that failed as they had before."""

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
    """How an operation is to go on, and what of its score is not counted any more."""

    options: RolloutOptions
    pardoned: Score = Score()

    def to_text(self) -> str:
        return encode({**asdict(self.options), "pardoned": list(self.pardoned)})

    @classmethod
    def from_text(cls, text: str) -> RolloutPlan:
        stored: Any = decode(text)
        pardoned = Score(*stored.pop("pardoned"))
        return cls(RolloutOptions(**stored), pardoned)


class RolloutFigures(NamedTuple):
    """An operation at one moment.

    score         what came of its items, without what was pardoned
    ready         items that could be begun now; counted up to a batch
    running       items under way
    ramping       the canary is over
    released_at   until when the rate is used up
    open_breaker  the name of one that its remaining items depend on
    """

    score: Score
    ready: int
    running: int
    ramping: bool
    released_at: float | None = None
    open_breaker: str | None = None


class ItemRelease(NamedTuple):
    """Begin so many items; the rate is then used up until `released_at`."""

    number: int
    released_at: float


class RolloutWait(NamedTuple):
    seconds: float


class CanaryPassed(NamedTuple):
    """The canary went well."""


class Stop(NamedTuple):
    reason: str


class Finish(NamedTuple):
    """What is still planned cannot be begun any more."""


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
    # Rounded first: an item must not wait for a moment more because it was computed as 0.9999999999.
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
    """Time that was not used up counts for a second, or one item: a pause is not made up for."""
    oldest = now - max(BURST_SECONDS, 1.0 / rate)
    return oldest if released_at is None else min(now, max(oldest, released_at))


def _released(figures: RolloutFigures, wanted: int, now: float) -> ItemRelease | RolloutWait:
    number = min(wanted, figures.ready, MAX_BATCH_SIZE, _most_running(figures.score) - figures.running)
    return ItemRelease(number, now) if number > 0 else RolloutWait(POLL_SECONDS)


def _most_running(score: Score) -> int:
    """What is under way cannot be stopped any more: not more of it than have ended, from a batch upwards."""
    return min(MAX_RUNNING, max(MAX_BATCH_SIZE, score.judged))


def _reason_to_stop(figures: RolloutFigures, options: RolloutOptions) -> str | None:
    score = figures.score
    if options.stop_on_breaker and figures.open_breaker is not None:
        return f"the breaker {figures.open_breaker!r} is open, and items that are left depend on it"
    if options.same_failures is not None and score.repeated >= options.same_failures:
        return f"{plural(score.repeated, 'item')} failed again just as before"
    if score.judged < _enough(figures, options) or score.failed <= options.failure_rate * score.judged:
        return None
    part = f"{score.failed / score.judged:.0%}, more than {options.failure_rate:.0%}"
    return f"{score.failed} of {plural(score.judged, 'item')} failed: {part}"


def _enough(figures: RolloutFigures, options: RolloutOptions) -> int:
    """So many must have ended before the failures among them say something."""
    whole_canary = figures.score.begun >= options.canary and not figures.running
    return 1 if not figures.ramping and whole_canary else options.minimum
