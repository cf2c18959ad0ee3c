"""How many jobs per second fail for good, with everything that belongs to their dead letters, or without."""

from __future__ import annotations

from bench.dead_letters.crew import worker
from bench.dead_letters.sparing import VARIANTS, spare_tables
from bench.work import draining
from bench.work.contender import Entry
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind


async def rate(entry: Entry, url: str, variant: str, seconds: float) -> float:
    count, spared = int(entry.pace_of(Kind.FAIL) * seconds), VARIANTS[variant]
    contender = Contender(url)
    await contender.prepare()
    await spare_tables(contender.app, spared)
    await draining.enqueue(entry, contender, Kind.FAIL, count)
    with worker(url, Kind.FAIL, spared) as crew:
        return await draining.measured(contender, crew, Kind.FAIL, count)
