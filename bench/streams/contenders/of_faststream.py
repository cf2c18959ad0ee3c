"""FastStream in batches of 100 from a consumer group; its handler inserts them with one statement.

FastStream acknowledges a batch after its handler has returned.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
from bench.streams import entries
from bench.streams.contenders.event_table import INSERT, create_table
from bench.work.jobs import Jobs
from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, StreamSub

_PIECE = 1_000


class Contender:
    def __init__(self, database: str, redis: str) -> None:
        self._database, self._redis = database, redis
        self._connection: Any = None

    def prepare(self) -> None:
        create_table(self._database)
        entries.create_group(self._redis)

    def publish(self, count: int) -> None:
        asyncio.run(self._publish(count))

    def consume(self, jobs: Jobs) -> None:
        asyncio.run(self._consume())

    async def _publish(self, count: int) -> None:
        async with RedisBroker(self._redis, logger=None) as broker:
            for start in range(0, count, _PIECE):
                async with broker._connection.pipeline(transaction=False) as pipeline:
                    for number in range(start, min(count, start + _PIECE)):
                        await broker.publish(entries.fields(number), stream=entries.STREAM, pipeline=pipeline)
                    await pipeline.execute()

    async def _consume(self) -> None:
        self._connection = await asyncpg.connect(self._database)
        broker = RedisBroker(self._redis, logger=None)
        source = StreamSub(
            entries.STREAM, group=entries.GROUP, consumer="faststream", batch=True, max_records=entries.BATCH
        )
        broker.subscriber(stream=source, ack_policy=AckPolicy.NACK_ON_ERROR)(self._store)
        await FastStream(broker, logger=None).run()

    async def _store(self, events: list[dict[str, str]]) -> None:
        columns = [[event[name] for event in events] for name in ("type", "user", "id")]
        payloads = [event["payload"] for event in events]
        await self._connection.execute(INSERT, entries.STREAM, *columns, [""] * len(events), payloads)
