"""Repid on Redis streams; a failed message is put back once, or moved to its dead-letter stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.work.jobs import Jobs, Kind, Payload
from repid import RedisServer, Repid, Router

BATCH = 100


class Contender:
    def __init__(self, url: str) -> None:
        self._app: Any = Repid()
        self._server: Any = RedisServer(url, batch_size=BATCH)
        self._app.servers.register_server("default", self._server, is_default=True)

    async def prepare(self) -> None:
        await self._server.connect()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        body = {"payload": payload}
        await self._app.send_message_json(channel="default", payload=body, headers={"topic": "perform"})

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        connection = self._server._redis
        if kind is Kind.FAIL:
            return int(await connection.xlen("repid:default:dlq")) == count
        return int((await connection.xpending("repid:default", "repid:default:group"))["pending"]) == 0

    def work(self, jobs: Jobs) -> None:
        asyncio.run(self._work(jobs))

    async def _work(self, jobs: Jobs) -> None:
        async def perform(payload: Payload) -> None:
            await jobs.perform_async(payload)

        perform.__annotations__ = {"payload": dict, "return": None}  # it does not read them as text
        router: Any = Router()
        router.actor(perform, on_error="reject" if jobs.kind is Kind.FAIL_ONCE else "nack")
        self._app.include_router(router)
        await self._server.connect()
        await self._app.run_worker()
