"""Huey on Redis or SQLite (every commit synced); its workers are threads, and poll often on SQLite.

It removes a job from the queue before it executes it, so there is nothing to complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.work.jobs import Jobs, Kind, Payload
from huey import RedisHuey, SqliteHuey

WORKERS = 4


class Contender:
    def __init__(self, url: str) -> None:
        self._huey: Any = _huey(url)
        self._jobs: Jobs | None = None
        self._once = self._huey.task(retries=1, retry_delay=0, name="once")(self._perform)
        self._first = self._huey.task(name="first")(self._perform)
        self._second = self._huey.task(name="second")(_pass_on)
        self._third = self._huey.task(name="third")(self._end)

    async def prepare(self) -> None:
        self._huey.flush()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        task = (self._once if kind is Kind.FAIL_ONCE else self._first).s(payload)
        if kind is Kind.WORKFLOW:
            task = task.then(self._second).then(self._third)
        self._huey.enqueue(task)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.FAIL:
            return int(self._huey.result_count()) == count
        return int(self._huey.pending_count()) == 0

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        options = {"initial_delay": 0.005, "max_delay": 0.02, "check_worker_health": False}
        self._huey.create_consumer(workers=WORKERS, periodic=False, **options).run()

    def _perform(self, payload: Payload) -> Payload | None:
        assert self._jobs is not None
        self._jobs.perform(payload)
        return payload if self._jobs.kind is Kind.WORKFLOW else None

    def _end(self, **payload: Any) -> None:
        assert self._jobs is not None
        self._jobs.end()


def _pass_on(**payload: Any) -> Payload:
    """Return a step's result, which the next step receives as keyword arguments."""
    return payload


def _huey(url: str) -> Any:
    if url.startswith("redis"):
        return RedisHuey("bench", url=url)
    return SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync=True)
