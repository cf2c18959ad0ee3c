"""Awa with its queue storage. The Rust core claims and completes, the handlers are coroutines.

The benchmark counts finished jobs in Awa's own tables: its view of all jobs is up to a second late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awa import AsyncClient, RetryAfter
from bench.work.contenders.counter import Counter
from bench.work.jobs import Jobs, Kind, PassingError, Payload

QUEUE = "bench"
CONCURRENCY = 500
CONNECTIONS = 20
POLLING_MS = 50
PROMOTION_MS = 50

_ENDED = """SELECT (SELECT count(*) FROM awa.done_entries)
    + (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
    + (SELECT coalesce(sum(pruned_completed_count + pruned_failed_count), 0)
       FROM awa.queue_terminal_rollups)"""


@dataclass
class Arguments:
    number: int
    text: str


class Contender:
    def __init__(self, url: str) -> None:
        self._client: Any = AsyncClient(url, max_connections=CONNECTIONS)
        self._counter = Counter(url)

    async def prepare(self) -> None:
        await self._client.migrate()
        await self._client.install_queue_storage()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        await self._client.insert(Arguments(**payload), **_options(kind))

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        arguments = [Arguments(**payload) for payload in payloads]
        await self._client.enqueue_many_copy(arguments, **_options(kind))

    async def has_ended(self, kind: Kind, count: int) -> bool:
        return await self._counter.count(_ENDED) == count

    def work(self, jobs: Jobs) -> None:
        asyncio.run(self._work(jobs))

    async def _work(self, jobs: Jobs) -> None:
        async def perform(job: Any) -> Any:
            try:
                await jobs.perform_async(vars(job.args))
            except PassingError:
                if jobs.kind is Kind.FAIL_ONCE:
                    return RetryAfter(0)
                raise
            return None

        self._client.task(Arguments, kind=str(jobs.kind), queue=QUEUE)(perform)
        await self._client.start(
            [(QUEUE, CONCURRENCY)], poll_interval_ms=POLLING_MS, promote_interval_ms=PROMOTION_MS
        )
        await asyncio.Event().wait()


def _options(kind: Kind) -> dict[str, Any]:
    return {"kind": str(kind), "queue": QUEUE, "max_attempts": 2 if kind is Kind.FAIL_ONCE else 1}
