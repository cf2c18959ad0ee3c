"""Monitors: alerts about the statistics of a dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from redrive.model.statistics import LifetimeStats, Statistics
from redrive.policy.bounds import require, require_whole
from redrive.words.number import noun, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of alerts.

    success_percent  of all redrives so far, from the first on; and of those of the last hour
    minimum_samples  redrives that must have finished in the last hour before their success rate counts
    """

    utilization_percent: float = 80.0
    exhausted: int = 100
    success_percent: float = 50.0
    minimum_samples: int = 20

    def __post_init__(self) -> None:
        require("utilization_percent", self.utilization_percent, 0.0, 100.0)
        require_whole("exhausted", self.exhausted, 0, 1_000_000_000)
        require("success_percent", self.success_percent, 0.0, 100.0)
        require_whole("minimum_samples", self.minimum_samples, 1, 1_000_000_000)


class Alert(NamedTuple):
    """An alert: `name` is an identifier for programs, `message` a sentence for people."""

    name: str
    message: str


DEFAULT_THRESHOLDS = Thresholds()


def alerts(
    statistics: Statistics,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    *,
    since: LifetimeStats | None = None,
) -> tuple[Alert, ...]:
    """Return all alerts. With the figures of an hour ago in `since`, the last hour is judged as well.

    The redrives of the last hour count by themselves, so that old successes don't hide new failures.
    """
    lifetime = statistics.lifetime_stats
    successes = _few_successes(lifetime, thresholds, 1)
    if since is not None:
        successes = successes or _few_successes(lifetime.since(since), thresholds, thresholds.minimum_samples)
    return (
        *_nearly_full(statistics, thresholds),
        *_many_exhausted(statistics, thresholds),
        *successes,
    )


def _nearly_full(statistics: Statistics, thresholds: Thresholds) -> Iterator[Alert]:
    size, most = statistics.queue_size, statistics.max_size
    if most is not None and size * 100.0 > most * thresholds.utilization_percent:
        percent = statistics.utilization_percent
        yield Alert(
            "queue_nearly_full",
            f"the queue is {percent:g}% full ({size:,} of {plural(most, 'dead letter')})",
        )


def _many_exhausted(statistics: Statistics, thresholds: Thresholds) -> Iterator[Alert]:
    exhausted = statistics.status_breakdown.get("exhausted", 0)
    if exhausted > thresholds.exhausted:
        yield Alert(
            "many_exhausted",
            f"{plural(exhausted, 'dead letter')} {noun(exhausted, 'has', 'have')} no automatic redrives left",
        )


def _few_successes(figures: LifetimeStats, thresholds: Thresholds, minimum: int) -> tuple[Alert, ...]:
    ended = figures.retry_success + figures.retry_failed
    percent = 100.0 * figures.retry_success / max(1, ended)
    if ended < minimum or percent >= thresholds.success_percent:
        return ()
    message = f"{figures.retry_success:,} of {plural(ended, 'redrive')} succeeded ({percent:.0f}%)"
    return (Alert("few_successes", message),)
