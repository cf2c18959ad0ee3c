"""Draining while another session holds a snapshot, which keeps PostgreSQL from removing dead rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import asyncpg
from bench.work import draining
from bench.work.contender import Entry
from bench.work.jobs import Kind


async def rates(entry: Entry, url: str, jobs: int, seconds: float) -> tuple[float, float]:
    """Jobs per second without a snapshot, and at the end of so many seconds of work under one.

    A round enqueues `jobs` and drains them. The first round warms up, the second one has no snapshot, and the
    last one of all the others is what counts.
    """
    contender = entry.at(url)
    await contender.prepare()
    without, held = 0.0, 0.0
    for _ in ("warm-up", "without"):
        without = await draining.round_rate(entry, contender, url, Kind.NOTHING, jobs)
    async with _snapshot(url):
        started = monotonic()
        while not held or monotonic() - started < seconds:
            held = await draining.round_rate(entry, contender, url, Kind.NOTHING, jobs)
    return without, held


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT pg_current_snapshot()")
            yield
    finally:
        await connection.close()
