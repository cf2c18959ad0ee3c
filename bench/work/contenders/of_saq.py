"""SAQ on PostgreSQL or Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.work.jobs import Jobs, Kind, Payload
from saq import Queue, Worker

CONCURRENCY = 50


class Contender:
    def __init__(self, url: str) -> None:
        self._queue: Any = Queue.from_url(url, **_options(url))

    async def prepare(self) -> None:
        await self._queue.connect()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        retries = 2 if kind is Kind.FAIL_ONCE else 1
        await self._queue.enqueue("perform", payload=payload, retries=retries, retry_delay=0.0)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return int(await self._queue.count("incomplete")) == 0

    def work(self, jobs: Jobs) -> None:
        asyncio.run(self._work(jobs))

    async def _work(self, jobs: Jobs) -> None:
        async def perform(_context: object, *, payload: Payload) -> None:
            await jobs.perform_async(payload)

        await self._queue.connect()
        worker: Any = Worker(self._queue, [("perform", perform)], concurrency=CONCURRENCY)
        await worker.start()


def _options(url: str) -> dict[str, Any]:
    return {} if url.startswith("redis") else {"min_size": 4, "max_size": 20}
