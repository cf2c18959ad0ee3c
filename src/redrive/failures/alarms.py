"""Alarms: looks at the figures of the dead letters, and tells when something comes to be wrong (M10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.model.event import AlertRaised
from redrive.model.statistics import LifetimeStats, Statistics, utilization
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Alert, Thresholds, alerts
from redrive.store.redriving import Census

RECENT = 3600.0
"""Seconds for which redrives are judged by their success: a good past must not hide a bad present."""


class Alarms:
    """An alert is told when it comes up, and again when it comes up after it had gone."""

    def __init__(
        self,
        clock: Clock,
        event_bus: EventBus,
        *,
        queue: str = "",
        max_size: int | None = None,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
    ) -> None:
        self._clock = clock
        self._event_bus = event_bus
        self._queue = queue
        self._max_size = max_size
        self._thresholds = thresholds
        self._past: deque[tuple[float, dict[str, LifetimeStats]]] = deque()
        self._raised: set[tuple[str, str]] = set()

    def look(self, census: Mapping[str, Census], interval: float) -> list[tuple[str, Alert]]:
        """What is wrong in which org; what is so since the last look only is told."""
        earlier = self._earlier(census)
        found = [
            (org, alert)
            for org, figures in sorted(census.items())
            for alert in alerts(
                statistics_of(figures, self._max_size, interval, running=True),
                self._thresholds,
                since=earlier.get(org),
            )
        ]
        for org, alert in found:
            if (org, alert.name) not in self._raised:
                self._event_bus.emit(AlertRaised(org, self._queue, alert.name, alert.message))
        self._raised = {(org, alert.name) for org, alert in found}
        return found

    def _earlier(self, census: Mapping[str, Census]) -> dict[str, LifetimeStats]:
        """The figures of an hour ago, or the oldest that are known; then these are kept, too."""
        now = self._clock.monotonic()
        while len(self._past) > 1 and self._past[1][0] <= now - RECENT:
            self._past.popleft()
        earlier = self._past[0][1] if self._past else {}
        self._past.append((now, {org: each.lifetime for org, each in census.items()}))
        return earlier


def statistics_of(census: Census, max_size: int | None, interval: float, *, running: bool) -> Statistics:
    return Statistics(
        queue_size=census.live,
        max_size=max_size,
        utilization_percent=utilization(census.live, max_size),
        status_breakdown=dict(census.statuses),
        error_categories=dict(census.categories),
        retry_policies=dict(census.policies),
        is_processor_running=running,
        retry_interval_seconds=interval,
        lifetime_stats=census.lifetime,
    )
