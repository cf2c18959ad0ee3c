"""How long an idle worker takes to start a job, from the moment a caller starts to enqueue it."""

from __future__ import annotations

import asyncio
from random import Random
from statistics import quantiles
from time import monotonic, monotonic_ns

from bench.work.contender import Contender, Entry
from bench.work.jobs import Kind, payload
from bench.work.workers import Workers, workers

MAX_SAMPLES = 150
FEWEST_SAMPLES = 20
WARM_UP = 5
LOOK_INTERVAL = 0.0005


async def milliseconds(entry: Entry, url: str, seconds: float) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    contender = entry.at(url)
    await contender.prepare()
    random = Random(1)
    samples: list[float] = []
    with workers(entry, url, Kind.PICK_UP, 1) as group:
        await group.ready()
        group.counters.go()
        for number in range(WARM_UP):
            await _sample(contender, group, number)
        end = monotonic() + 3 * seconds
        while len(samples) < FEWEST_SAMPLES or (len(samples) < MAX_SAMPLES and monotonic() < end):
            await asyncio.sleep(random.uniform(0.01, 0.03))
            samples.append(await _sample(contender, group, len(samples)))
    parts = quantiles(samples, n=100, method="inclusive")
    return parts[49], parts[98]


async def _sample(contender: Contender, group: Workers, number: int) -> float:
    before, started = group.counters.begun, monotonic_ns()
    await contender.enqueue_one(Kind.PICK_UP, payload(number))
    await group.until(lambda: group.counters.begun > before, LOOK_INTERVAL)
    return (group.counters.latest - started) / 1e6
