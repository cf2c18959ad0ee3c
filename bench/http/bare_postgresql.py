"""PostgreSQL through asyncpg, with as many connections as Redrive has for requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
from bench.http.statements import ENQUEUE

from redrive.model.run import NewRun
from redrive.store.postgres_tenant import CONNECTIONS
from redrive.store.statement import Statement


class Tables:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def open(self) -> None:
        # A reset after each use would be another round trip, which Redrive avoids too.
        sizes = {"min_size": CONNECTIONS, "max_size": CONNECTIONS}
        settings = {"jit": "off"}
        self._pool = await asyncpg.create_pool(self._url, **sizes, reset=_nothing, server_settings=settings)

    async def insert(self, run: NewRun) -> None:
        query = ENQUEUE.postgres
        await self._pool.fetch(query.text, *query.columns([query.reader(run)]))

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Any]:
        query = statement.postgres
        found: Sequence[Any] = await self._pool.fetch(query.text, *query.arguments(parameters))
        return found


async def _nothing(_connection: Any) -> None:
    pass
