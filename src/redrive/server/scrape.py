"""What a scrape by Prometheus is answered with: the counts of this process, and how full the tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.app import Redrive
from redrive.model.dead_letter import DeadLetterState
from redrive.store.listing import MOST_COUNTED

if TYPE_CHECKING:
    from redrive.observe.metrics import Metrics


def counting(app: Redrive) -> Metrics | None:
    """None where prometheus_client is not installed."""
    try:
        from redrive.observe.metrics import Metrics
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        return None
    metrics = Metrics()
    app.listen(metrics)
    return metrics


async def scraped(app: Redrive, metrics: Metrics) -> bytes:
    """Depths are counted up to 10,000, over all organizations."""
    depths = await app.store.run_lists.overall_depths()
    letters = await app.store.dead_letters.by_state()
    metrics.queue_depth.clear()
    for each in depths:
        metrics.queue_depth.labels(each.queue, each.place).set(min(each.number, MOST_COUNTED))
    for state in DeadLetterState:
        metrics.dead_letters.labels(state).set(letters.get(state, 0))
    return metrics.text()
