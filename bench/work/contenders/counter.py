"""Counts rows in PostgreSQL, on a connection that stays open."""

from __future__ import annotations

from typing import Any

import asyncpg


class Counter:
    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def count(self, query: str) -> int:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
        return int(await self._connection.fetchval(query))
