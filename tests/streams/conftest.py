"""An application on both databases, and an empty real Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site, site
from tests.servers import RedisServer

from redrive import Redrive
from redrive.events import Event, Stream
from redrive.model.stream import StreamState
from redrive.parts import parts_of
from redrive.streams.consumer import Consumer
from redrive.streams.serve import consumer_of

__all__ = ["site"]

KEY = "orders"


class Broker:
    """A Redis and its stream of orders."""

    def __init__(self, url: str, client: Any) -> None:
        self.url, self.client = url, client

    async def add(self, *numbers: int, **fields: Any) -> list[str]:
        """Publish orders; the id of the entry is their number."""
        ids = []
        for number in numbers:
            entry = {
                "type": "order.paid",
                "id": f"order-{number}",
                "user": "ana",
                "payload": f'{{"n": {number}}}',
            }
            ids.append(await self.client.xadd(KEY, {**entry, **fields}, id=f"{number}-0"))
        return [found.decode() for found in ids]

    async def reconnect(self) -> None:
        """Forget the connections to a server that was started again."""
        await self.client.connection_pool.disconnect()

    async def pending(self) -> int:
        return int((await self.client.xpending(KEY, "redrive"))["pending"])

    async def mirrored(self) -> list[dict[str, str]]:
        entries = await self.client.xrange(f"{KEY}.dlq")
        return [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]


@pytest.fixture
async def broker(live_redis: RedisServer) -> AsyncIterator[Broker]:
    client = redis.asyncio.Redis.from_url(live_redis.url)
    await client.flushall()
    yield Broker(live_redis.url, client)
    await client.aclose()


class Orders:
    """An application that projects orders, and notes what its projector received."""

    def __init__(
        self, site: Site, broker: Broker, settings: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.app: Redrive = site.app(**(settings or {}))
        self.seen: list[Any] = []
        defaults: dict[str, Any] = {"idle_seconds": 0.2, "batch": 10}
        self.stream: Stream = self.app.stream(KEY, broker.url, **{**defaults, **options})

    def project(self, **options: Any) -> Orders:
        @self.stream.projector("invoice", **options)
        async def invoice(event: Event) -> None:
            self.seen.append(event.payload["n"] if isinstance(event.payload, dict) else event.payload)

        return self

    def consumer(self) -> Consumer:
        return consumer_of(self.app, self.stream)

    @contextlib.asynccontextmanager
    async def consuming(self, number: int = 1) -> AsyncIterator[list[Consumer]]:
        """Run consumers in this process until the block ends."""
        await self.app.open()
        consumers = [self.consumer() for _ in range(number)]
        running = [asyncio.create_task(consumer.run()) for consumer in consumers]
        try:
            yield consumers
            for consumer in consumers:
                consumer.stop()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def events(self) -> list[Event]:
        return await self.app.events().list(limit=500)

    async def stored(self) -> list[int]:
        """The numbers of the stored orders."""
        return sorted(event.payload["n"] for event in await self.events())

    async def work_off(self) -> list[Any]:
        worker = self.app.worker()
        async with asyncio.timeout(PATIENCE):
            await worker.work_off()
        return self.seen

    async def letters(self) -> list[Any]:
        lines = (await self.app.failures(org=self.stream.org).list()).lines
        return [await parts_of(self.app).store.dead_letters.get(line.id, self.stream.org) for line in lines]

    async def state(self) -> StreamState:
        return await parts_of(self.app).stream_control(self.stream).state()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until the condition holds, and return what it returned."""
    async with asyncio.timeout(PATIENCE / 3):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
    return found
