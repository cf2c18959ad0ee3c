"""When a circuit breaker opens, and how it closes again."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.errors import InvalidValueError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a breaker opens, for how long, and how it closes again.

    It opens when either window holds at least `minimum_calls` calls (or is full) and the share of failed or
    of slow ones has reached its rate. A window of None is not watched.
    """

    window_calls: int | None = 20
    window_seconds: float | None = 120.0
    minimum_calls: int = 20
    failure_rate: float = 0.5
    slow_seconds: float | None = None
    slow_rate: float = 0.5
    cool_down: float = 30.0
    longest_open: float = 3600.0
    probe_slots: int = 3
    probe_seconds: float = 60.0
    successes_to_close: int = 3

    def __post_init__(self) -> None:
        if self.window_calls is None and self.window_seconds is None:
            raise InvalidValueError("a breaker needs window_calls, window_seconds or both")
        if self.window_calls is not None:
            require_whole("window_calls", self.window_calls, 1, 10_000)
        if self.window_seconds is not None:
            require("window_seconds", self.window_seconds, 0.001, MAX_DELAY_SECONDS)
        if self.slow_seconds is not None:
            require("slow_seconds", self.slow_seconds, 0.0, MAX_DELAY_SECONDS)
        require_whole("minimum_calls", self.minimum_calls, 1, 1_000_000)
        require("failure_rate", self.failure_rate, 0.001, 1.0)
        require("slow_rate", self.slow_rate, 0.001, 1.0)
        require("cool_down", self.cool_down, 0.0, MAX_DELAY_SECONDS)
        require("longest_open", self.longest_open, self.cool_down, MAX_DELAY_SECONDS)
        require_whole("probe_slots", self.probe_slots, 1, 1000)
        require("probe_seconds", self.probe_seconds, 0.001, MAX_DELAY_SECONDS)
        require_whole("successes_to_close", self.successes_to_close, 1, 1000)
