"""Durations: the first one, and those after another one that does not count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Milliseconds."""

    first: float
    others: Sequence[float]

    @property
    def half(self) -> float:
        return median(self.others)

    @property
    def most(self) -> float:
        """19 of 20 take no longer."""
        return sorted(self.others)[int(len(self.others) * 0.95) - 1]


async def timed(make: Callable[[], Awaitable[Any]], times: int) -> Times:
    values = []
    for _ in range(times + 2):
        started = perf_counter()
        await make()
        values.append((perf_counter() - started) * 1e3)
    return Times(values[0], values[2:])
