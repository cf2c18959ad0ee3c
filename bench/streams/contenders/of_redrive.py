"""Redrive itself: a stream without projectors, read by a consumer as it comes."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.streams import entries
from bench.work.jobs import Jobs

from redrive import Redrive
from redrive.events import Event
from redrive.settings import Settings
from redrive.streams.serve import run_consumers

NEVER = 3_600.0
"""Entries of a consumer that is gone stay pending: their takeover is not measured."""
CONCURRENCY = 1_000
_PIECE = 1_000


class Contender:
    def __init__(self, database: str, redis: str, *, projects: bool = False, **options: Any) -> None:
        self.app = Redrive(settings=Settings(database_url=database))
        self._redis = redis
        self._jobs: Jobs | None = None
        self.stream = self.app.stream(
            "bench",
            redis,
            stream=entries.STREAM,
            group=entries.GROUP,
            idle_seconds=NEVER,
            max_queued=10_000_000,
        )
        if projects:
            self.stream.projector("score", timeout=3600.0, **options)(self._project)

    def prepare(self) -> None:
        entries.create_group(self._redis)
        asyncio.run(self._open_once())

    def publish(self, count: int) -> None:
        entries.publish(self._redis, count)

    def consume(self, jobs: Jobs) -> None:
        run_consumers(self.app)

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.app.run_worker(concurrency=CONCURRENCY)

    async def record(self, count: int) -> None:
        """Store so many events with their runs, without Redis."""
        for start in range(0, count, _PIECE):
            numbers = range(start, min(count, start + _PIECE))
            await self.app.events().record(self.stream, [_event(number) for number in numbers])
        await self.app.close()

    async def _open_once(self) -> None:
        async with self.app:
            pass

    async def _project(self, event: Event) -> None:
        if self._jobs is not None:
            await self._jobs.perform_async({})


def _event(number: int) -> Event:
    fields = entries.fields(number)
    return Event(type=fields["type"], payload=fields["payload"], dedupe_key=fields["id"], user=fields["user"])
