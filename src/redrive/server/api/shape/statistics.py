"""Statistics of dead letters, as answers have them (M7)."""

from __future__ import annotations

from redrive.server.api.shape.base import Shown


class LifetimeShape(Shown):
    enqueued_total: int
    retry_success: int
    retry_failed: int
    exhausted: int
    manually_retried: int
    archived: int
    refused: int


class StatisticsShape(Shown):
    """`queue_size` counts live dead letters; `max_size` is null where there is no limit."""

    queue_size: int
    max_size: int | None
    utilization_percent: float
    status_breakdown: dict[str, int]
    error_categories: dict[str, int]
    retry_policies: dict[str, int]
    is_processor_running: bool
    retry_interval_seconds: float
    lifetime_stats: LifetimeShape
