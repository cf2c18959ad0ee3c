"""Opening a database on first use: its tables are migrated before the first statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redrive.errors import InvalidValueError
from redrive.forking import ResetInChild, join_forks
from redrive.store.database import Database, Row, Session
from redrive.store.statement import Statement, load_statements


class Opening(ResetInChild):
    """Migrates a database once per event loop. Concurrent callers wait for the migration."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._migration: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = False
        join_forks(self)

    @property
    def is_done(self) -> bool:
        return self._done and self._loop is asyncio.get_running_loop()

    async def __call__(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and not self._loop.is_closed():
            raise InvalidValueError(
                "this application is in use on another event loop; close it there first, "
                "or create one application per event loop"
            )
        if self._loop is not loop or self._migration is None or _failed(self._migration):
            self._done = False
            self._loop = loop
            self._migration = asyncio.create_task(self._migrate())
        if not self._migration.done():
            await asyncio.shield(self._migration)

    def forget(self) -> None:
        """Open the database again on next use, which may be on another event loop."""
        self._migration = self._loop = None
        self._done = False

    def after_fork_in_child(self) -> None:
        self.forget()

    async def _migrate(self) -> None:
        load_statements()
        await self._database.migrate()
        self._done = True


class OpeningSession(Session):
    """A session whose database is opened by its first statement."""

    def __init__(self, session: Session, opening: Opening) -> None:
        self._session = session
        self._opening = opening

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        if not self._opening.is_done:
            await self._opening()
        return await self._session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        if not self._opening.is_done:
            await self._opening()
        return await self._session.fetch_many(statement, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        if not self._opening.is_done:
            await self._opening()
        async with self._session.transaction() as session:
            yield session


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
