"""Statistics of the dead letters of an org, under the names that others know them by (M7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from redrive.failures.alarms import statistics_of
from redrive.failures.clearing import DEFAULT_MAX_SIZE, is_stand_alone
from redrive.model.failure import Category
from redrive.model.statistics import Statistics
from redrive.policy.triage import triage
from redrive.store.identifier import findable
from redrive.store.redriving import Census, ProcessorRow
from redrive.store.store import Store


async def statistics(
    store: Store, org: str, queue: str | None = None, *, max_size: int | None, interval: float
) -> Statistics:
    """Of all its queues, or of one. `interval` is told as long as no processor runs that has its own."""
    queue = None if queue is None else findable(queue)
    census = (await store.redrives.census(org=org, queue=queue)).get(org, Census())
    running = [each for each in await store.redrives.processors() if _serves(each, queue)]
    if queue is not None and is_stand_alone(queue):
        max_size = max_size or DEFAULT_MAX_SIZE
    seconds = min([each.interval_seconds for each in running], default=interval)
    figures = statistics_of(census, max_size, seconds, running=bool(running))
    return figures._replace(error_categories=by_kind(census.categories))


def by_kind(categories: Mapping[str, int]) -> dict[str, int]:
    """Categories as the coarse kinds by which dead letters are redriven (M4)."""
    kinds: Counter[str] = Counter()
    for category, number in categories.items():
        kinds[triage(Category(category)).value] += number
    return dict(kinds)


def _serves(processor: ProcessorRow, queue: str | None) -> bool:
    return processor.running and (queue is None or processor.queue in ("", queue))
