"""How many jobs per second fail permanently, with or without each part of their dead letters."""

from __future__ import annotations

from bench.dead_letters.ablation import VARIANTS, spare_tables
from bench.dead_letters.processor import ProcessorTime
from bench.dead_letters.worker_process import worker
from bench.work import drain
from bench.work.contender import Entry
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind


async def rate(entry: Entry, url: str, variant: str, seconds: float) -> tuple[float, float]:
    """Return the rate, and the microseconds of processor time per job."""
    count, spared = int(entry.pace_of(Kind.FAIL) * seconds), VARIANTS[variant]
    contender = Contender(url)
    await contender.prepare()
    await spare_tables(contender.app, spared)
    await drain.enqueue(entry, contender, Kind.FAIL, count)
    with worker(url, Kind.FAIL, spared) as group:
        await group.ready()
        processor = ProcessorTime(contender.app, group.pids)
        await processor.start()
        jobs = await drain.measured(contender, group, Kind.FAIL, count)
        return jobs, await processor.microseconds() / count
