"""Statistics of dead letters, and the alerts that are raised when they cross a threshold."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from redrive.clock import Clock
from redrive.engine.event_bus import EventBus
from redrive.failures.external_tasks import DEFAULT_MAX_SIZE, is_stand_alone
from redrive.model.event import AlertRaised
from redrive.model.failure import Category
from redrive.model.statistics import STATUS_WORDS, LifetimeStats, Statistics, utilization
from redrive.policy.monitor import DEFAULT_THRESHOLDS, Alert, Thresholds, alerts
from redrive.policy.triage import triage
from redrive.store.automatic_redrive import Census
from redrive.store.database import findable
from redrive.store.store import Store

RECENT_SECONDS = 3600.0
"""The time over which the success of redrives is measured, besides their lifetime."""


async def statistics(
    store: Store, org: str, queue: str | None = None, *, max_size: int | None, interval: float
) -> Statistics:
    """Count the dead letters of an organization, in all its queues or in one.

    `interval` is reported while no processor runs; a running processor reports its own.
    """
    queue = None if queue is None else findable(queue)
    census = (await store.redrives.census(org=org, queue=queue)).get(org, Census())
    running = [
        processor
        for processor in await store.redrives.processors()
        if processor.running and (queue is None or processor.queue in ("", queue))
    ]
    if queue is not None and is_stand_alone(queue):
        max_size = max_size or DEFAULT_MAX_SIZE
    seconds = min([processor.interval_seconds for processor in running], default=interval)
    kinds: Counter[str] = Counter()
    for category, number in census.categories.items():
        kinds[triage(Category(category)).value] += number
    figures = _statistics(census, max_size, seconds, running=bool(running))
    return figures._replace(error_categories=dict(kinds))


def _statistics(census: Census, max_size: int | None, interval: float, *, running: bool) -> Statistics:
    return Statistics(
        queue_size=census.live,
        max_size=max_size,
        utilization_percent=utilization(census.live, max_size),
        status_breakdown={word: census.states[state] for state, word in STATUS_WORDS.items()},
        error_categories=dict(census.categories),
        retry_policies=dict(census.policies),
        is_processor_running=running,
        retry_interval_seconds=interval,
        lifetime_stats=census.lifetime,
    )


class Alarms:
    """Emits each alert when its condition begins to hold, once until the condition ends."""

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

    def check(self, census: Mapping[str, Census], interval: float) -> list[tuple[str, Alert]]:
        """Find the alerts of each organization, and emit the alerts that the last check did not find."""
        earlier = self._earlier(census)
        found = [
            (org, alert)
            for org, figures in sorted(census.items())
            for alert in alerts(
                _statistics(figures, self._max_size, interval, running=True),
                self._thresholds,
                since=earlier.get(org),
            )
        ]
        for org, alert in found:
            if (org, alert.name) not in self._raised:
                self._event_bus.emit(
                    AlertRaised(org=org, queue=self._queue, alert=alert.name, message=alert.message)
                )
        self._raised = {(org, alert.name) for org, alert in found}
        return found

    def _earlier(self, census: Mapping[str, Census]) -> dict[str, LifetimeStats]:
        """Return the figures of an hour ago, or the oldest ones; store the current figures."""
        now = self._clock.monotonic()
        while len(self._past) > 1 and self._past[1][0] <= now - RECENT_SECONDS:
            self._past.popleft()
        earlier = self._past[0][1] if self._past else {}
        self._past.append((now, {org: figures.lifetime for org, figures in census.items()}))
        return earlier
