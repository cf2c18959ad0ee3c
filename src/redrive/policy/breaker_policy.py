"""Policies of circuit breakers: when one opens and closes, and how fast held work is released afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redrive.duration import Seconds
from redrive.errors import InvalidValueError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_whole, set_seconds

MAX_RELEASED = 1_000_000_000
_ENOUGH = 100.0
"""A power of e at which every ramp has released MAX_RELEASED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker opens, how long it stays open, and how it closes again.

    It has two windows: the last `window_calls` calls, and the calls of the last `window_seconds`. It opens
    when the share of failed or slow calls in one of them has reached its rate, and that window has enough
    calls: `minimum_calls`, or `minimum_recent_calls` in the window of seconds, so that a dependency with few
    calls that always fails opens soon. A window of None is not used; without the window of calls,
    `minimum_calls` applies to the other one.
    """

    window_calls: int | None = 20
    window_seconds: float | None = 120.0
    minimum_calls: int = 20
    minimum_recent_calls: int = 5
    failure_rate: float = 0.5
    slow_seconds: float | None = None
    slow_rate: float = 0.5
    cool_down: float = 30.0
    longest_open: float = 3600.0
    probe_slots: int = 3
    probe_seconds: float = 60.0
    successes_to_close: int = 3

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            window_calls: int | None = ...,
            window_seconds: Seconds | None = ...,
            minimum_calls: int = ...,
            minimum_recent_calls: int = ...,
            failure_rate: float = ...,
            slow_seconds: Seconds | None = ...,
            slow_rate: float = ...,
            cool_down: Seconds = ...,
            longest_open: Seconds = ...,
            probe_slots: int = ...,
            probe_seconds: Seconds = ...,
            successes_to_close: int = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.window_calls is None and self.window_seconds is None:
            raise InvalidValueError("a breaker needs window_calls, window_seconds or both")
        if self.window_calls is not None:
            require_whole("window_calls", self.window_calls, 1, 10_000)
        if self.window_seconds is not None:
            set_seconds(self, "window_seconds", 0.001, MAX_DELAY_SECONDS)
        if self.slow_seconds is not None:
            set_seconds(self, "slow_seconds", 0.0, MAX_DELAY_SECONDS)
        require_whole("minimum_calls", self.minimum_calls, 1, 1_000_000)
        require_whole("minimum_recent_calls", self.minimum_recent_calls, 1, 1_000_000)
        require("failure_rate", self.failure_rate, 0.001, 1.0)
        require("slow_rate", self.slow_rate, 0.001, 1.0)
        set_seconds(self, "cool_down", 0.0, MAX_DELAY_SECONDS)
        set_seconds(self, "longest_open", self.cool_down, MAX_DELAY_SECONDS)
        require_whole("probe_slots", self.probe_slots, 1, 1000)
        set_seconds(self, "probe_seconds", 0.001, MAX_DELAY_SECONDS)
        require_whole("successes_to_close", self.successes_to_close, 1, 1000)

    @property
    def enough_calls(self) -> int | None:
        """The number of calls that the window of calls needs; None without that window."""
        return None if self.window_calls is None else min(self.minimum_calls, self.window_calls)

    @property
    def enough_recent_calls(self) -> int | None:
        """The number of calls that the window of seconds needs; None without that window."""
        if self.window_seconds is None:
            return None
        return min(self.minimum_calls, self.minimum_recent_calls) if self.window_calls else self.minimum_calls


@dataclass(frozen=True, slots=True)
class Ramp:
    """Releases held work in growing steps; all at once, it would overload the dependency again.

    `first` items start immediately; then, every `every` seconds, `factor` times as many as before.
    """

    first: int = 10
    factor: float = 2.0
    every: float = 1.0

    if TYPE_CHECKING:

        def __init__(self, first: int = ..., factor: float = ..., every: Seconds = ...) -> None: ...

    def __post_init__(self) -> None:
        require_whole("first", self.first, 1, 1_000_000)
        require("factor", self.factor, 1.0, 1000.0)
        set_seconds(self, "every", 0.001, MAX_DELAY_SECONDS)

    def released_by(self, seconds: float) -> int:
        """Count the items that may be released within the seconds after the recovery."""
        if not seconds >= 0.0:
            return 0
        steps = 1 + math.floor(min(seconds / self.every, MAX_RELEASED))
        released = self.first * _sum_of_powers(self.factor, steps)
        # Rounded first: a step of 21 must not become 20 because it was computed as 20.999999999999996.
        return math.floor(round(min(released, MAX_RELEASED), 3))

    def allowance(self, since: float, now: float, released: int) -> int:
        """Count the items that may be released now, after `released` since the recovery."""
        return max(0, self.released_by(now - since) - released)


def _sum_of_powers(factor: float, count: int) -> float:
    """Add up 1 + factor + factor² + …, accurately also for a factor of nearly 1."""
    if factor == 1.0:
        return count
    growth = factor - 1.0
    return math.expm1(min(count * math.log1p(growth), _ENOUGH)) / growth
