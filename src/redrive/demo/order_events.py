"""The events that Acme's web shop publishes to a Redis stream when it receives orders."""

from __future__ import annotations

import json
from typing import Any

from redrive.demo.acme.app import ORDERS

REPEATED = 10
"""Every tenth event is published twice: publishers retry, too."""


class OrderEvents:
    """Publishes events. Without a URL, it publishes none."""

    def __init__(self, url: str) -> None:
        self._client: Any = None
        self._published = 0
        if url:
            from redis.asyncio import Redis

            self._client = Redis.from_url(url)

    async def publish(self, order: dict[str, Any]) -> None:
        """Publish that an order was placed. Without Redis, the shop continues."""
        if self._client is None:
            return
        from redis.exceptions import RedisError

        entry = {
            "type": "order.placed",
            "event_id": f"{order['order']}:placed",
            "source": "web-shop",
            "user": order["customer"]["email"],
            "payload": json.dumps({key: order[key] for key in ("order", "sku", "cents", "address")}),
        }
        self._published += 1
        for _ in range(2 if self._published % REPEATED == 0 else 1):
            try:
                await self._client.xadd(ORDERS, entry)
            except (RedisError, OSError):
                return

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
