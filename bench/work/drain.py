"""How many jobs per second finish.

All jobs are enqueued first. The clock starts when the last worker has started its first job, and jobs started
before that do not count; it stops when the database has recorded that every job has ended. So the figure
excludes starting up, and includes durable completion.
"""

from __future__ import annotations

import asyncio
from time import monotonic, monotonic_ns

from bench.work.contender import Contender, Entry
from bench.work.jobs import Kind, payload
from bench.work.workers import PATIENCE, Workers, workers

BATCH = 1_000
LOOK_INTERVAL = 0.002
FEWEST = 50


async def rate(entry: Entry, url: str, kind: Kind, processes: int, seconds: float) -> float:
    count = max(FEWEST, int(entry.pace_of(kind) * seconds * (1 + processes) / 2))
    contender = entry.at(url)
    await contender.prepare()
    return await round_rate(entry, contender, url, kind, count, processes)


async def round_rate(
    entry: Entry, contender: Contender, url: str, kind: Kind, count: int, processes: int = 1
) -> float:
    """Enqueue this many jobs, then start the workers that drain them."""
    await enqueue(entry, contender, kind, count)
    with workers(entry, url, kind, processes) as group:
        return await measured(contender, group, kind, count)


async def backlog_rates(entry: Entry, url: str, short: int, long: int) -> tuple[float, float]:
    """Drain a short backlog and then a long one, in the same database."""
    contender = entry.at(url)
    await contender.prepare()
    rate_of_short = await round_rate(entry, contender, url, Kind.NOTHING, short)
    return rate_of_short, await round_rate(entry, contender, url, Kind.NOTHING, long)


async def enqueue(entry: Entry, contender: Contender, kind: Kind, count: int) -> None:
    for start in range(0, count, BATCH):
        batch = [payload(number) for number in range(start, min(count, start + BATCH))]
        if entry.bulk:
            await contender.enqueue_many(kind, batch)
        else:
            for one in batch:
                await contender.enqueue_one(kind, one)


async def measured(contender: Contender, group: Workers, kind: Kind, count: int) -> float:
    await group.begin_together()
    await group.until(lambda: group.counters.done >= count, LOOK_INTERVAL)
    deadline = monotonic() + PATIENCE
    while not await contender.has_ended(kind, count):
        group.check(deadline)
        await asyncio.sleep(LOOK_INTERVAL)
    ended = monotonic_ns()
    if group.counters.begun != count:
        raise RuntimeError(f"{group.counters.begun} jobs were begun, and only {count} enqueued")
    started, before = group.counters.start
    return (count - before) / (ended - started) * 1e9
