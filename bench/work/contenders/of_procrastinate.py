"""Procrastinate on psycopg, with a connection for each few of its concurrent jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, Payload
from procrastinate import App, PsycopgConnector, RetryStrategy

CONCURRENCY = 20
POLLING = 0.1
_LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
_FAILED = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'"


class Contender:
    def __init__(self, url: str) -> None:
        self._app: Any = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY))
        self._counter = Counter(url)
        self._jobs: Jobs | None = None
        self._tasks = {
            kind: self._app.task(name=str(kind), retry=RetryStrategy(max_attempts=2, wait=0))(self._perform)
            if kind is Kind.FAIL_ONCE
            else self._app.task(name=str(kind))(self._perform)
            for kind in (Kind.NOTHING, Kind.PICK_UP, Kind.FAIL_ONCE, Kind.FAIL)
        }

    async def prepare(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self._tasks[kind].defer_async(payload=payload)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        await self._tasks[kind].batch_defer_async(*({"payload": payload} for payload in payloads))

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.FAIL:
            return await self._counter.count(_FAILED) == count
        return await self._counter.count(_LEFT) == 0

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with self._app.open_async():
            await self._app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=POLLING)

    async def _perform(self, payload: Payload) -> None:
        assert self._jobs is not None
        await self._jobs.perform_async(payload)
