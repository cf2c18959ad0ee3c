"""The seam between the store and the databases: two small protocols with two implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from redrive.errors import InvalidValueError, StatementTimeoutError
from redrive.policy.bounds import require
from redrive.store.statement import Statement

Row = Sequence[Any]


class Session(Protocol):
    """Where statements are executed: each for itself, or several in one transaction.

    A lost connection, a full disk, a locked file raise StoreUnavailableError; the next call tries again.
    """

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]: ...

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        """Execute once for every row, all or nothing; a row has the parameters as attributes."""

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """Commit all or nothing. Wait for nothing but the database inside of it."""


class OpenTransaction(Session, Protocol):
    """A transaction that has begun. A transaction inside of it is the same one, and commits with it."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        yield self


class Database(Session, Protocol):
    """A database as a whole: its tables, its connections, and the hints that there is work."""

    @property
    def in_memory(self) -> bool:
        """Whether it lives in this process, on one connection that nothing else can share."""

    async def migrate(self) -> None:
        """Bring the tables up to date; safe from several processes at once."""

    def another(self) -> Database:
        """Return the same database over connections of its own, for another thread."""

    def tenant(self, org: str, seconds: float) -> Session:
        """Return the session for the requests of one organization.

        A statement that takes longer raises StatementTimeoutError. On PostgreSQL, row-level security hides
        the rows of other organizations, whatever a statement says. This database closes its connections.
        """

    async def enable_row_level_security(self) -> None:
        """Create what `tenant` needs on PostgreSQL: a role without rights of its own, and its policies."""

    async def hint(self, queues: Sequence[str]) -> None:
        """Tell idle workers that there is work. May be dropped: polling is the floor."""

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` with the name of a queue, or "" for any, when there may be work."""

    async def close(self) -> None:
        """Close all connections, those of tenants included; the next call opens them again."""


class _HasDatabase(Protocol):
    @property
    def database(self) -> Database: ...


class Application(Protocol):
    """An application, as a place where a database is named."""

    @property
    def _parts(self) -> _HasDatabase: ...


def database_of(source: object) -> Database | None:
    """The database of an application; None for anything else."""
    parts: _HasDatabase | None = getattr(source, "_parts", None)
    return None if parts is None else parts.database


def findable(identifier: object) -> str:
    """The id as it can be asked for on every database; nothing has the empty one."""
    return identifier if isinstance(identifier, str) and identifier.isprintable() else ""


LEAST_SECONDS = 0.001
MAX_SECONDS = 60.0


def check_tenant(org: object, seconds: object) -> None:
    if not isinstance(org, str) or not org or not org.isprintable():
        raise InvalidValueError(f"the org of a tenant must be a name, got {org!r}")
    require("the time limit of a statement, in seconds,", seconds, LEAST_SECONDS, MAX_SECONDS)


def out_of_time(seconds: float) -> StatementTimeoutError:
    return StatementTimeoutError(
        f"the query took longer than {seconds:g} s and was stopped; narrow it: a shorter time, one state, "
        f"one workflow or queue, a smaller page",
        seconds=seconds,
    )
