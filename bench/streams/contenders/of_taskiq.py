"""taskiq on a Redis stream: a task inserts one event; the broker acknowledges after it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
from bench.streams import entries
from bench.streams.contenders.event_table import INSERT, create_table
from bench.work.jobs import Jobs
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

PREFETCH = 100
CONNECTIONS = 20


class Contender:
    def __init__(self, database: str, redis: str) -> None:
        self._database = database
        self._broker: Any = RedisStreamBroker(redis)
        self._pool: Any = None

        async def store(fields: dict[str, str]) -> None:
            columns = [[fields[name]] for name in ("type", "user", "id")]
            await self._pool.execute(INSERT, entries.STREAM, *columns, [""], [fields["payload"]])

        self._task = self._broker.register_task(store, "store")

    def prepare(self) -> None:
        create_table(self._database)

    def publish(self, count: int) -> None:
        asyncio.run(self._publish(count))

    def consume(self, jobs: Jobs) -> None:
        asyncio.run(self._consume())

    async def _publish(self, count: int) -> None:
        await self._broker.startup()
        for number in range(count):
            await self._task.kiq(entries.fields(number))
        await self._broker.shutdown()

    async def _consume(self) -> None:
        self._pool = await asyncpg.create_pool(self._database, min_size=CONNECTIONS, max_size=CONNECTIONS)
        await run_receiver_task(self._broker, run_startup=True, max_prefetch=PREFETCH)
