"""DBOS on PostgreSQL or SQLite: a job is a workflow of one step, enqueued by its client."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, Payload
from dbos import DBOS, DBOSClient

QUEUE = "bench"
VERSION = "1"
POLLING = 0.02
_LEFT = "SELECT count(*) FROM {}workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._counter = Counter(url)
        self._client: Any = None

    async def prepare(self) -> None:
        await asyncio.to_thread(self._launch)  # it refuses to launch while an event loop is running
        await asyncio.to_thread(DBOS.destroy)
        self._client = DBOSClient(system_database_url=self._url)

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        options = {"workflow_name": str(kind), "queue_name": QUEUE, "app_version": VERSION}
        self._client.enqueue(options, payload)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if self._url.startswith("sqlite"):
            with sqlite3.connect(self._url.removeprefix("sqlite:///")) as connection:
                return bool(connection.execute(_LEFT.format("")).fetchone()[0] == 0)
        return await self._counter.count(_LEFT.format("dbos.")) == 0

    def work(self, jobs: Jobs) -> None:
        _register(jobs)
        self._launch()
        threading.Event().wait()

    def _launch(self) -> None:
        config: Any = {"name": "bench", "system_database_url": self._url, "application_version": VERSION}
        DBOS(config=config | {"run_admin_server": False})
        DBOS.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=POLLING)


def _register(jobs: Jobs) -> None:
    def perform(payload: Payload) -> Payload:
        jobs.perform(payload)
        return payload

    def pass_on(payload: Payload) -> Payload:
        return payload

    def end(payload: Payload) -> Payload:
        jobs.end()
        return payload

    again = {"retries_allowed": True, "interval_seconds": 0.0, "max_attempts": 2}
    options: dict[str, Any] = again if jobs.kind is Kind.FAIL_ONCE else {}
    first, *rest = [DBOS.step(name="perform", **options)(perform), *map(DBOS.step(), (pass_on, end))]
    steps = [first, *rest] if jobs.kind is Kind.WORKFLOW else [first]

    def workflow(payload: Payload) -> Payload:
        for step in steps:
            payload = step(payload)
        return payload

    DBOS.workflow(name=str(jobs.kind))(workflow)
