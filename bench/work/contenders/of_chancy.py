"""Chancy with its asyncio executor and eager polling; it looks for workflows every second, not every 30."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, Payload
from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.leadership import Leadership
from chancy.plugins.workflow import Sequence as Steps
from chancy.plugins.workflow import WorkflowPlugin

CONCURRENCY = 200
_AT_ONCE = {"retry_settings": {"backoff": 0, "backoff_jitter": [0, 0]}}
_LEFT = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')"
_FAILED = "SELECT count(*) FROM chancy_jobs WHERE state = 'failed'"
_COMPLETED = "SELECT count(*) FROM chancy_workflows WHERE state = 'completed'"

# Its workers find functions by their import path, so these must be at the top level of the module.
_jobs: list[Jobs] = []


async def perform(payload: Payload) -> None:
    await _jobs[0].perform_async(payload)


async def pass_on(payload: Payload) -> None:
    return None


async def end(payload: Payload) -> None:
    _jobs[0].end()


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._counter = Counter(url)
        self._app: Any = None

    async def prepare(self) -> None:
        self._app = Chancy(self._url)
        await self._app.pool.open()
        await self._app.migrate()
        await self._app.declare(
            Queue(
                "default",
                concurrency=CONCURRENCY,
                executor=Chancy.Executor.Async,
                polling_interval=1,
                eager_polling=True,
            )
        )

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        if kind is Kind.WORKFLOW:
            steps = [_job(function, kind, payload) for function in (perform, pass_on, end)]
            await Steps("three", steps).push(self._app)
        else:
            await self._app.push(_job(perform, kind, payload))

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        if kind is Kind.WORKFLOW:
            for payload in payloads:
                await self.enqueue_one(kind, payload)
            return
        async for _ in self._app.push_many([_job(perform, kind, payload) for payload in payloads]):
            pass

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.WORKFLOW:
            return await self._counter.count(_COMPLETED) == count
        if kind is Kind.FAIL:
            return await self._counter.count(_FAILED) == count
        return await self._counter.count(_LEFT) == 0

    def work(self, jobs: Jobs) -> None:
        _jobs.append(jobs)
        asyncio.run(self._work())

    async def _work(self) -> None:
        plugins = [Leadership(poll_interval=1, timeout=5), WorkflowPlugin(polling_interval=1)]
        async with Chancy(self._url, plugins=plugins) as app, Worker(app) as worker:
            await worker.wait_for_shutdown()


def _job(function: Any, kind: Kind, payload: Payload) -> Any:
    attempts = 2 if kind is Kind.FAIL_ONCE else 1
    job = Job.from_func(function, kwargs={"payload": payload}, queue="default", max_attempts=attempts)
    return job.with_meta(_AT_ONCE) if kind is Kind.FAIL_ONCE else job
