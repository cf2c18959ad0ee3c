"""SQLite through apsw: one connection, one thread. Every commit is synced, as with Redrive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
from bench.http.statements import ENQUEUE

from redrive.model.run import NewRun
from redrive.store.statement import SqlQuery, Statement


class Tables:
    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:///")
        self._thread = ThreadPoolExecutor(1)

    async def open(self) -> None:
        await self._called(self._connect)

    async def insert(self, run: NewRun) -> None:
        query = ENQUEUE.sqlite
        await self._called(self._fetch, query, query.reader(run))

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Any]:
        query = statement.sqlite
        found: Sequence[Any] = await self._called(self._fetch, query, query.arguments(parameters))
        return found

    async def _called(self, work: Any, *values: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *values)

    def _connect(self) -> None:
        self._connection = apsw.Connection(self._path)
        self._connection.set_busy_timeout(10_000)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def _fetch(self, query: SqlQuery, values: tuple[Any, ...]) -> list[Any]:
        return list(self._connection.execute(query.text, (time.time(), *values) if query.timed else values))
