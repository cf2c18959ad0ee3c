"""Jitter: the interval around a planned wait in which the real wait is drawn.

Spreading the waits keeps callers that failed together from coming back together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from redrive.policy.bounds import MAX_DELAY_SECONDS, require


class Plan(Protocol):
    """What a jitter may look at."""

    @property
    def seconds(self) -> float:
        """The planned wait."""

    @property
    def cap(self) -> float:
        """The longest wait that may be planned."""

    @property
    def first(self) -> float:
        """The wait planned after the first failure."""

    @property
    def previous(self) -> float:
        """The wait before this one."""


class Jitter(Protocol):
    def interval(self, plan: Plan) -> tuple[float, float]: ...

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class NoJitter:
    def interval(self, plan: Plan) -> tuple[float, float]:
        return plan.seconds, plan.seconds

    def describe(self) -> str:
        return "no jitter"


@dataclass(frozen=True, slots=True)
class Proportional:
    """Up to `ratio` less or more than planned."""

    ratio: float

    def __post_init__(self) -> None:
        require("ratio", self.ratio, 0.0, 1.0)

    def interval(self, plan: Plan) -> tuple[float, float]:
        return plan.seconds * (1.0 - self.ratio), plan.seconds * (1.0 + self.ratio)

    def describe(self) -> str:
        return f"jitter ±{self.ratio:.0%}"


@dataclass(frozen=True, slots=True)
class Additive:
    """As planned, and up to `maximum` more."""

    maximum: float

    def __post_init__(self) -> None:
        require("maximum", self.maximum, 0.0, MAX_DELAY_SECONDS)

    def interval(self, plan: Plan) -> tuple[float, float]:
        return plan.seconds, plan.seconds + self.maximum

    def describe(self) -> str:
        return f"jitter +0 to {self.maximum:g} s"


@dataclass(frozen=True, slots=True)
class Full:
    """Anything from nothing to the planned wait."""

    def interval(self, plan: Plan) -> tuple[float, float]:
        return 0.0, plan.seconds

    def describe(self) -> str:
        return "full jitter"


@dataclass(frozen=True, slots=True)
class Equal:
    """Half of the planned wait, and up to the other half more."""

    def interval(self, plan: Plan) -> tuple[float, float]:
        return plan.seconds / 2.0, plan.seconds

    def describe(self) -> str:
        return "equal jitter"


@dataclass(frozen=True, slots=True)
class Decorrelated:
    """Between the first wait and `factor` times the wait before, whatever the curve plans; capped."""

    factor: float = 3.0

    def __post_init__(self) -> None:
        require("factor", self.factor, 1.0, 1000.0)

    def interval(self, plan: Plan) -> tuple[float, float]:
        return plan.first, max(plan.first, min(plan.cap, plan.previous * self.factor))

    def describe(self) -> str:
        return f"decorrelated jitter ×{self.factor:g}"
