"""taskiq on a Redis stream, its broker that acknowledges; it keeps nothing of a failed task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import redis.asyncio
from bench.work.jobs import Jobs, Kind, Payload
from taskiq import SimpleRetryMiddleware
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

PREFETCH = 100


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        retries = SimpleRetryMiddleware(default_retry_count=2)
        self._broker: Any = RedisStreamBroker(url).with_middlewares(retries)
        self._jobs: Jobs | None = None

        async def perform(payload: dict[str, Any]) -> None:
            assert self._jobs is not None
            await self._jobs.perform_async(payload)

        self._once = self._broker.register_task(perform, "once", retry_on_error=True)
        self._task = self._broker.register_task(perform, "perform")

    async def prepare(self) -> None:
        await self._broker.startup()
        self._redis: Any = redis.asyncio.from_url(self._url)

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await (self._once if kind is Kind.FAIL_ONCE else self._task).kiq(payload)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return int((await self._redis.xpending("taskiq", "taskiq"))["pending"]) == 0

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        asyncio.run(self._work())

    async def _work(self) -> None:
        await run_receiver_task(self._broker, run_startup=True, max_prefetch=PREFETCH)
