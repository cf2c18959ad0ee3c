"""Statistics of dead letters, in the words of a stand-alone queue."""

from __future__ import annotations

from collections.abc import Mapping
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
"""The words of a stand-alone queue for the states of dead letters."""


class LifetimeStats(NamedTuple):
    """What has happened since the queue exists. They survive restarts, and the removal of old letters."""

    enqueued_total: int = 0
    retry_success: int = 0
    retry_failed: int = 0
    exhausted: int = 0
    manually_retried: int = 0
    archived: int = 0
    refused: int = 0

    def since(self, earlier: LifetimeStats) -> LifetimeStats:
        """What has happened after that."""
        return LifetimeStats._make(now - then for now, then in zip(self, earlier, strict=True))


class Statistics(NamedTuple):
    """`queue_size` counts live letters; the breakdown by status tells of the closed ones too.

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
        """As plain values, for JSON."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self._asdict().items()
        } | {"lifetime_stats": self.lifetime_stats._asdict()}


def utilization(queue_size: int, max_size: int | None) -> float:
    """How full a queue is, in percent; one without a limit never fills."""
    return 0.0 if max_size is None else round(100.0 * queue_size / max_size, 1)
