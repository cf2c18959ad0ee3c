"""How much memory a worker uses while 1,000 jobs are in flight."""

from __future__ import annotations

import asyncio

import psutil
from bench.work import drain
from bench.work.contender import Entry
from bench.work.jobs import Kind
from bench.work.workers import workers

JOBS = 1_000
SETTLE = 0.5


async def megabytes(entry: Entry, url: str, _seconds: float) -> float:
    contender = entry.at(url)
    await contender.prepare()
    await drain.enqueue(entry, contender, Kind.SLEEP, JOBS)
    with workers(entry, url, Kind.SLEEP, 1) as group:
        await group.begin_together()
        await group.until(lambda: group.counters.begun >= JOBS, 0.01)
        await asyncio.sleep(SETTLE)
        return float(psutil.Process(group.pids[0]).memory_info().rss) / 1e6
