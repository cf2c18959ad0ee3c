"""Enqueueing and working off while the database holds many rows of another kind, or a long transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import asyncpg
from bench.work import draining
from bench.work.contender import Entry
from bench.work.jobs import Kind
from bench.work.workers import workers

LONG_TRANSACTION = "long transaction"


async def rates(entry: Entry, url: str, burden: str, seconds: float) -> tuple[float, float]:
    """Jobs per second: enqueued in bulk, and worked off by one process."""
    count = int(entry.pace * seconds)
    contender = entry.at(url)
    await contender.prepare()
    async with _snapshot(url if burden == LONG_TRANSACTION else ""):
        started = monotonic()
        await draining.enqueue(entry, contender, Kind.NOTHING, count)
        enqueued = count / (monotonic() - started)
        with workers(entry, url, Kind.NOTHING, 1) as crew:
            return enqueued, await draining.measured(contender, crew, Kind.NOTHING, count)


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    """Keeps the server from cleaning up anything that was alive when it was taken."""
    if not url:
        yield
        return
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT count(*) FROM redrive.runs")
            yield
    finally:
        await connection.close()
