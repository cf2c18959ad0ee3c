"""Draining while another session holds a snapshot, which keeps PostgreSQL from removing dead rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import asyncpg
from bench.work import drain
from bench.work.contender import Entry
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind

NO_ID = "0" * 32


async def rates(entry: Entry, url: str, jobs: int, seconds: float) -> tuple[float, float]:
    """Return jobs per second without a snapshot, and after `seconds` of work while a session holds one.

    A round enqueues `jobs` and drains them. The first round warms up, the second has no snapshot, and of the
    others only the last counts.
    """
    contender = _Watched(url, jobs)
    await contender.prepare()
    without, held = 0.0, 0.0
    for _ in ("warm-up", "without"):
        without = await contender.round_rate(entry)
    async with _snapshot(url):
        started = monotonic()
        while not held or monotonic() - started < seconds:
            held = await contender.round_rate(entry)
    return without, held


class _Watched(Contender):
    """Detects the end of a round by counting the runs that have ended since it started.

    Counting the remaining runs, as other measurements do, would step over all deleted rows that the snapshot
    keeps, which took longer than the round.
    """

    def __init__(self, url: str, jobs: int) -> None:
        super().__init__(url)
        self._url = url
        self._jobs_in_a_round = jobs
        self._last = NO_ID

    async def round_rate(self, entry: Entry) -> float:
        self._last = str(await self._asked("SELECT id FROM redrive.ended ORDER BY id DESC LIMIT 1") or NO_ID)
        return await drain.round_rate(entry, self, self._url, Kind.NOTHING, self._jobs_in_a_round)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        since = "SELECT count(*) FROM redrive.ended WHERE id > CAST($1 AS uuid)"
        return int(await self._asked(since, self._last)) == count

    async def _asked(self, text: str, *values: Any) -> Any:
        connection = await asyncpg.connect(self._url)
        try:
            return await connection.fetchval(text, *values)
        finally:
            await connection.close()


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT pg_current_snapshot()")
            yield
    finally:
        await connection.close()
