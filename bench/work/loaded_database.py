"""Enqueueing and draining while the database holds many rows of another kind."""

from __future__ import annotations

from time import monotonic

from bench.work import drain
from bench.work.contender import Entry
from bench.work.jobs import Kind
from bench.work.workers import workers


async def rates(entry: Entry, url: str, seconds: float) -> tuple[float, float]:
    """Return jobs per second: enqueued in bulk, and drained by one process."""
    count = int(entry.pace * seconds)
    contender = entry.at(url)
    await contender.prepare()
    started = monotonic()
    await drain.enqueue(entry, contender, Kind.NOTHING, count)
    enqueued = count / (monotonic() - started)
    with workers(entry, url, Kind.NOTHING, 1) as group:
        return enqueued, await drain.measured(contender, group, Kind.NOTHING, count)
