"""The seam between the store and the databases: a small protocol with two implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from redrive.store.statement import Statement

Row = Sequence[Any]


class Session(Protocol):
    """Where statements are executed: each for itself, or all in one transaction."""

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]: ...

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        """Execute once for every row, all or nothing; a row has the parameters as attributes."""


class Database(Session, Protocol):
    """A lost connection, a full disk, a locked file raise StoreUnavailableError; the next call tries anew."""

    @property
    def in_memory(self) -> bool:
        """Does it live in this process only, with nobody else to share it?"""

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """All or nothing. Nothing waits for anything but the database inside of it."""

    async def migrate(self) -> None:
        """Bring the tables up to date; safe from several processes at once."""

    def another(self) -> Database:
        """The same database over connections of its own, for another thread."""

    def tenant(self, org: str, seconds: float) -> Database:
        """The same database for one org: no statement takes longer (StatementTimeoutError), and on PostgreSQL
        no row of another org is there, whatever a statement says. Closed with this one."""

    async def enable_row_level_security(self) -> None:
        """Make what `tenant` needs on PostgreSQL: a role without rights of its own, and what it may do."""

    async def hint(self, queues: Sequence[str]) -> None:
        """Tell idle workers that there is work. May be dropped: polling is the floor."""

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` with the name of a queue, or "" for any, when there may be work."""

    async def close(self) -> None: ...
