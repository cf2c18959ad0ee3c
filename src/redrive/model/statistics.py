"""Statistics of dead letters, with the state names of a stand-alone queue; the time span of an overview."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.model.dead_letter import DeadLetterState

STATUS_WORDS = MappingProxyType(
    {
        DeadLetterState.OPEN: "pending",
        DeadLetterState.REPLAYING: "retrying",
        DeadLetterState.EXHAUSTED: "exhausted",
        DeadLetterState.RESOLVED: "completed",
        DeadLetterState.IGNORED: "discarded",
        DeadLetterState.ARCHIVED: "archived",
    }
)
"""The names of dead letter states in a stand-alone queue."""


class LifetimeStats(NamedTuple):
    """Totals since the queue was created. They survive restarts and the deletion of old dead letters."""

    enqueued_total: int = 0
    retry_success: int = 0
    retry_failed: int = 0
    exhausted: int = 0
    manually_retried: int = 0
    archived: int = 0
    refused: int = 0

    def since(self, earlier: LifetimeStats) -> LifetimeStats:
        """Subtract earlier totals."""
        return LifetimeStats._make(now - then for now, then in zip(self, earlier, strict=True))


class Statistics(NamedTuple):
    """`queue_size` counts live dead letters; the breakdown by status also includes closed ones.

    max_size  None: no limit
    """

    queue_size: int
    max_size: int | None
    utilization_percent: float
    status_breakdown: Mapping[str, int]
    error_categories: Mapping[str, int]
    retry_policies: Mapping[str, int]
    is_processor_running: bool
    retry_interval_seconds: float
    lifetime_stats: LifetimeStats

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self._asdict().items()
        } | {"lifetime_stats": self.lifetime_stats._asdict()}


def utilization(queue_size: int, max_size: int | None) -> float:
    """Return how full a queue is, in percent; 0 if it has no limit."""
    return 0.0 if max_size is None else round(100.0 * queue_size / max_size, 2)


class Span(StrEnum):
    """How far back an overview looks. Numbers are counted in intervals of equal width."""

    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def width(self) -> int:
        """The width of one interval in seconds, a multiple of the 300 s that are stored."""
        return _WIDTHS[self]

    @property
    def parts(self) -> int:
        return _PARTS[self]

    @property
    def seconds(self) -> int:
        return self.width * self.parts


def first_part(now: float, width: int, parts: int) -> int:
    """Return the start of the first of `parts` intervals; the last one is in progress.

    Intervals are aligned to the clock, so all viewers see the same ones.
    """
    return (int(now // width) + 1 - parts) * width


def part_number(index: int, parts: int) -> int:
    """Limit the index to the last interval: the database's clock may be ahead."""
    return min(index, parts - 1)


_WIDTHS = {Span.HOUR: 300, Span.SIX_HOURS: 600, Span.DAY: 1800, Span.WEEK: 7200}
_PARTS = {Span.HOUR: 12, Span.SIX_HOURS: 36, Span.DAY: 48, Span.WEEK: 84}
