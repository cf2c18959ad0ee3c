"""How many jobs per second are durably enqueued: singly by concurrent callers, or in bulk."""

from __future__ import annotations

import asyncio
from itertools import count
from time import monotonic

from bench.work.contender import Contender, Entry
from bench.work.jobs import Kind, payload

BATCH = 1_000
WARM_UP = 20


async def one_by_one(entry: Entry, url: str, seconds: float, callers: int) -> float:
    contender = await _warm(entry, url)
    numbers = count()
    started = monotonic()

    async def call() -> None:
        while monotonic() - started < seconds:
            await contender.enqueue_one(Kind.NOTHING, payload(next(numbers)))

    await asyncio.gather(*(call() for _ in range(callers)))
    return next(numbers) / (monotonic() - started)


async def bulk(entry: Entry, url: str, seconds: float) -> float:
    contender = await _warm(entry, url)
    await contender.enqueue_many(Kind.NOTHING, [payload(number) for number in range(BATCH)])
    done, started = 0, monotonic()
    while monotonic() - started < seconds:
        await contender.enqueue_many(Kind.NOTHING, [payload(done + number) for number in range(BATCH)])
        done += BATCH
    return done / (monotonic() - started)


async def _warm(entry: Entry, url: str) -> Contender:
    contender = entry.at(url)
    await contender.prepare()
    for number in range(WARM_UP):
        await contender.enqueue_one(Kind.NOTHING, payload(number))
    return contender
