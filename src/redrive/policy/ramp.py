"""Recovery in growing steps: held work that came back all at once would flood the dependency again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_whole

MAX_RELEASED = 1_000_000_000
_ENOUGH = 100.0
"""A power of e beyond which any ramp has released the most."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """`first` items at once, and `every` so many seconds `factor` times as many as the step before."""

    first: int = 10
    factor: float = 2.0
    every: float = 1.0

    def __post_init__(self) -> None:
        require_whole("first", self.first, 1, 1_000_000)
        require("factor", self.factor, 1.0, 1000.0)
        require("every", self.every, 0.001, MAX_DELAY_SECONDS)

    def released_by(self, seconds: float) -> int:
        """How many items in all may have been released so many seconds after the recovery."""
        if not seconds >= 0.0:
            return 0
        steps = 1 + math.floor(min(seconds / self.every, MAX_RELEASED))
        released = self.first * _sum_of_powers(self.factor, steps)
        # Rounded first: a step of 21 must not become 20 because it was computed as 20.999999999999996.
        return math.floor(round(min(released, MAX_RELEASED), 3))

    def allowance(self, since: float, now: float, released: int) -> int:
        """How many more items may be released now, when `released` have been since the recovery."""
        return max(0, self.released_by(now - since) - released)


def _sum_of_powers(factor: float, count: int) -> float:
    """1 + factor + factor² + …, so many of them; accurate also for a factor that is nearly 1."""
    if factor == 1.0:
        return count
    growth = factor - 1.0
    return math.expm1(min(count * math.log1p(growth), _ENOUGH)) / growth
