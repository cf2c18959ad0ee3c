"""The yardstick: a loop that reads 100 entries, inserts them with one statement, and acknowledges them.

It decodes nothing, takes nothing over, reports nothing, and fails at the first bad entry.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import redis.asyncio
from bench.streams import entries
from bench.streams.contenders.event_table import INSERT, create_table
from bench.work.jobs import Jobs


class Contender:
    def __init__(self, database: str, redis: str) -> None:
        self._database, self._redis = database, redis

    def prepare(self) -> None:
        create_table(self._database)
        entries.create_group(self._redis)

    def publish(self, count: int) -> None:
        entries.publish(self._redis, count)

    def consume(self, jobs: Jobs) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        connection = await asyncpg.connect(self._database)
        client = redis.asyncio.Redis.from_url(self._redis)
        key, group = entries.STREAM, entries.GROUP
        while True:
            found: Any = await client.xreadgroup(group, "bare", {key: ">"}, count=entries.BATCH, block=1_000)
            if not found:
                continue
            [[_, items]] = found
            columns = [[fields[name].decode() for _, fields in items] for name in (b"type", b"user", b"id")]
            ids = [message_id.decode() for message_id, _ in items]
            payloads = [fields[b"payload"].decode() for _, fields in items]
            await connection.execute(INSERT, key, *columns, ids, payloads)
            await client.xack(key, group, *ids)
