"""Sliding windows of call results: the last n calls, or the last n seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError
from redrive.policy.bounds import require_whole

if TYPE_CHECKING:
    from redrive.policy.codec import JsonValue

BUCKETS = 12
MAX_COUNT = 2**62


class CountWindow:
    """The last `size` calls. Each result is one bit, the newest lowest."""

    __slots__ = ("_failed", "_mask", "_slow", "calls", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = 0
        self._mask = (1 << size) - 1
        self._failed = self._slow = 0

    @property
    def failures(self) -> int:
        return self._failed.bit_count()

    @property
    def slow_calls(self) -> int:
        return self._slow.bit_count()

    def record(self, now: float, *, failed: bool, slow: bool) -> None:
        self.add_successes(1)
        self._failed |= failed
        self._slow |= slow

    def add_successes(self, count: int) -> None:
        count = min(count, self.size)
        self.calls = min(self.size, self.calls + count)
        self._failed = self._failed << count & self._mask
        self._slow = self._slow << count & self._mask

    def steady_until(self, now: float) -> float:
        """Return until when the passing of time alone does not change the window."""
        return math.inf

    def dump(self) -> dict[str, JsonValue]:
        return {
            "size": self.size,
            "calls": self.calls,
            "failed": f"{self._failed:x}",
            "slow": f"{self._slow:x}",
        }

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Restore a dumped window of the same size; any exception means that it cannot be used."""
        calls = dumped["calls"]
        failed, slow = int(dumped["failed"], 16), int(dumped["slow"], 16)
        require_whole("size", dumped["size"], self.size, self.size)
        require_whole("calls", calls, 0, self.size)
        if min(failed, slow) < 0 or max(failed, slow) >> calls:
            raise InvalidValueError("a window holds more failures than calls")
        self.calls, self._failed, self._slow = calls, failed, slow


class TimeWindow:
    """The calls of the last `seconds`, counted in twelve buckets: a bucket leaves the window as a whole."""

    __slots__ = ("_buckets", "_newest", "_width", "calls", "failures", "seconds", "slow_calls")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._width = seconds / BUCKETS
        self._newest = -BUCKETS
        self._buckets = [(0, 0, 0)] * BUCKETS
        self.calls = self.failures = self.slow_calls = 0

    def record(self, now: float, *, failed: bool, slow: bool) -> None:
        self._advance(now)
        self._add(1, failed, slow)

    def add_successes(self, count: int) -> None:
        """Add calls to the newest bucket, whose time may have passed already."""
        self._add(count, 0, 0)

    def steady_until(self, now: float) -> float:
        """Return until when the passing of time alone does not change the window."""
        self._advance(now)
        return (self._newest + 1) * self._width

    def dump(self) -> dict[str, JsonValue]:
        buckets: list[JsonValue] = [list(bucket) for bucket in self._buckets]
        return {"seconds": self.seconds, "newest": self._newest, "buckets": buckets}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Restore a dumped window of the same length; any exception means that it cannot be used."""
        buckets = [_checked_bucket(*bucket) for bucket in dumped["buckets"]]
        require_whole("buckets", len(buckets), BUCKETS, BUCKETS)
        require_whole("newest", dumped["newest"], -MAX_COUNT, MAX_COUNT)
        if dumped["seconds"] != self.seconds:
            raise InvalidValueError("the dumped window has another length")
        self._newest, self._buckets = dumped["newest"], buckets
        self._sum_up()

    def _add(self, calls: int, failures: int, slow_calls: int) -> None:
        place = self._newest % BUCKETS
        before = self._buckets[place]
        self._buckets[place] = (before[0] + calls, before[1] + failures, before[2] + slow_calls)
        self.calls += calls
        self.failures += failures
        self.slow_calls += slow_calls

    def _advance(self, now: float) -> None:
        """Empty the buckets whose time has passed. A clock that goes back stays in the newest bucket."""
        number = int(now / self._width)
        if number <= self._newest:
            return
        for passed in range(max(self._newest + 1, number - BUCKETS + 1), number + 1):
            self._buckets[passed % BUCKETS] = (0, 0, 0)
        self._newest = number
        self._sum_up()

    def _sum_up(self) -> None:
        self.calls, self.failures, self.slow_calls = map(sum, zip(*self._buckets, strict=True))


def _checked_bucket(calls: int, failures: int, slow_calls: int) -> tuple[int, int, int]:
    require_whole("calls", calls, 0, MAX_COUNT)
    require_whole("failures", failures, 0, calls)
    require_whole("slow_calls", slow_calls, 0, calls)
    return calls, failures, slow_calls


Window = CountWindow | TimeWindow
