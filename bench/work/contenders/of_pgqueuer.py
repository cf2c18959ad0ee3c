"""PgQueuer on asyncpg and uvloop, as in its own benchmark; failed jobs are kept.

Its batch size is the best for it of 200, 500 and 1,000, and equals the size of Redrive's claims here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, PassingError, Payload
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.queries import Queries

BATCH = 500


class Contender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._counter = Counter(url)
        self._queries: Any = None

    async def prepare(self) -> None:
        self._queries = Queries(AsyncpgDriver(await asyncpg.connect(self._url)))
        await self._queries.install()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self._queries.enqueue(str(kind), json.dumps(payload).encode())

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        bodies = [json.dumps(payload).encode() for payload in payloads]
        await self._queries.enqueue([str(kind)] * len(bodies), bodies, [0] * len(bodies))

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.FAIL:
            return await self._counter.count("SELECT count(*) FROM pgqueuer WHERE status = 'failed'") == count
        return await self._counter.count("SELECT count(*) FROM pgqueuer") == 0

    def work(self, jobs: Jobs) -> None:
        uvloop.run(self._work(jobs))

    async def _work(self, jobs: Jobs) -> None:
        worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(self._url)))

        async def perform(job: Any) -> None:
            try:
                await jobs.perform_async(json.loads(job.payload))
            except PassingError:
                if jobs.kind is Kind.FAIL_ONCE:
                    raise RetryRequested(delay=timedelta(0)) from None
                raise

        worker.entrypoint(str(jobs.kind), on_failure="hold")(perform)
        await worker.run(batch_size=BATCH)
