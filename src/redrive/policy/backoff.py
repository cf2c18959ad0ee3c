"""Backoff: computes the wait before the next attempt.

A backoff has a curve (how the wait grows with the failures), a cap, and a jitter. A jitter is an interval
around the planned wait. The caller passes a draw, a number from 0 to 1, which selects a point in it:

    planned = min(cap, curve(failures))
    seconds = low + (high - low) · draw
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from redrive.duration import Seconds
from redrive.errors import InvalidValueError
from redrive.model.decision import Wait
from redrive.policy.bounds import MAX_DELAY_SECONDS, set_seconds
from redrive.policy.curve import Curve
from redrive.policy.jitter import Jitter, NoJitter, jitter_notation


@dataclass(frozen=True, slots=True)
class Backoff:
    curve: Curve
    cap: float = MAX_DELAY_SECONDS
    jitter: Jitter = field(default_factory=NoJitter)

    if TYPE_CHECKING:

        def __init__(self, curve: Curve, cap: Seconds = ..., jitter: Jitter = ...) -> None: ...

    def __post_init__(self) -> None:
        set_seconds(self, "cap", 0.0, MAX_DELAY_SECONDS)
        if not callable(getattr(self.curve, "delay", None)):
            raise InvalidValueError(f"curve must be a curve such as Exponential(1.0), got {self.curve!r}")
        if not callable(getattr(self.jitter, "interval", None)):
            raise InvalidValueError(f"jitter must be a jitter such as Full(), got {self.jitter!r}")

    def wait(self, failures: int, *, draw: float, previous: float | None = None) -> Wait | None:
        """Return the wait after `failures` failures; None if the curve allows no further attempt."""
        if failures < 1:
            raise InvalidValueError(f"failures must be at least 1, got {failures}")
        if not 0.0 <= draw <= 1.0:
            raise InvalidValueError(f"draw must be from 0 to 1, got {draw}")
        planned = self.planned(failures)
        if planned is None:
            return None
        low, high = self.jitter.interval(_PlannedWait(self, planned, failures, previous))
        seconds = min(high, low + (high - low) * draw)
        return Wait(seconds, planned, draw, low, high, failures, self)

    @property
    def longest(self) -> float:
        """The upper bound of all waits of this backoff."""
        return self.jitter.interval(_PlannedWait(self, self.cap, 1, self.cap))[1]

    def planned(self, failures: int) -> float | None:
        delay = self.curve.delay(failures)
        return None if delay is None else min(self.cap, delay)

    def formula(self, failures: object) -> str:
        """Return the formula of the planned wait. `failures` is a number or the name of a variable."""
        curve = self.curve.formula(failures)
        return curve if self.cap == MAX_DELAY_SECONDS else f"min({self.cap:g}, {curve})"

    @property
    def jitter_notation(self) -> str:
        """The jitter in the notation that `parse_jitter` reads."""
        return jitter_notation(self.jitter)


class _PlannedWait(NamedTuple):
    """The WaitPlan of a backoff. Only decorrelated jitter reads more than the planned wait."""

    backoff: Backoff
    seconds: float
    failures: int
    known_previous: float | None

    @property
    def cap(self) -> float:
        return self.backoff.cap

    @property
    def first(self) -> float:
        return self.backoff.planned(1) or 0.0

    @property
    def previous(self) -> float:
        if self.known_previous is not None:
            return self.known_previous
        return self.backoff.planned(max(1, self.failures - 1)) or 0.0
