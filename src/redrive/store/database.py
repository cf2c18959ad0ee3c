"""The interface between the store and the databases: two protocols, each with two implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from redrive.errors import InvalidValueError, StatementTimeoutError
from redrive.policy.bounds import require
from redrive.store.statement import Statement

Row = Sequence[Any]


class Session(Protocol):
    """Executes statements, each on its own or several in one transaction.

    A lost connection, a full disk or a locked file raises StoreUnavailableError; the next call tries again.
    """

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]: ...

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        """Execute the statement for every row, all or nothing. The attributes of a row are the parameters."""

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """Commit all or nothing. Inside the block, await only calls to the database."""


class OpenTransaction(Session, Protocol):
    """An open transaction. A nested transaction joins it and commits with it."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        yield self


class Database(Session, Protocol):
    """A database: its tables, its connections, and its notifications about new work."""

    @property
    def in_memory(self) -> bool:
        """Whether the database exists only in this process, on its one connection."""

    async def migrate(self) -> None:
        """Bring the tables up to date. Several processes may call it at once."""

    def another(self) -> Database:
        """Return the same database with separate connections, for another thread."""

    def tenant(self, org: str, seconds: float) -> Session:
        """Return the session for the requests of one organization.

        A statement that takes longer raises StatementTimeoutError. On PostgreSQL, row-level security hides
        the rows of other organizations, whatever a statement says. This database closes its connections.
        """

    async def enable_row_level_security(self) -> None:
        """Create the role that `tenant` uses on PostgreSQL, and grant it the rights that requests need.

        Raises IsolationError if the database user may not create it.
        """

    async def serve_only(self, org: str) -> None:
        """Let `tenant` serve one organization without row-level security, and refuse all others."""

    def require_isolated(self, org: str) -> None:
        """Raise IsolationError if requests of this organization would not be isolated from others."""

    async def hint(self, queues: Sequence[str]) -> None:
        """Notify idle workers of new work. A notification may get lost: workers also poll."""

    def listen(self, heard: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        """Call `heard` with the name of a queue that may have work, or "" for any queue."""

    async def wait_for_cancelled(self) -> None:
        """Wait, a moment at most, until no statement of a cancelled caller can take effect any more."""

    async def close(self) -> None:
        """Close all connections, including those of tenants. The next call opens new ones."""


class _HasDatabase(Protocol):
    @property
    def database(self) -> Database: ...


class Application(Protocol):
    """The part of an application that `database_of` reads."""

    @property
    def _parts(self) -> _HasDatabase: ...


def database_of(source: object) -> Database | None:
    """Return the database of an application; None for anything else."""
    parts: _HasDatabase | None = getattr(source, "_parts", None)
    return None if parts is None else parts.database


def findable(identifier: object) -> str:
    """Return an id that both databases accept as a parameter; "", which no row has, for other values."""
    return identifier if isinstance(identifier, str) and identifier.isprintable() else ""


MIN_SECONDS = 0.001
MAX_SECONDS = 60.0


def check_tenant(org: object, seconds: object) -> None:
    if not isinstance(org, str) or not org or not org.isprintable():
        raise InvalidValueError(f"an organization must have a printable, non-empty name, got {org!r}")
    require("the time limit of a statement, in seconds,", seconds, MIN_SECONDS, MAX_SECONDS)


def out_of_time(seconds: float) -> StatementTimeoutError:
    return StatementTimeoutError(
        f"the query took longer than {seconds:g} s and was cancelled; narrow it to a shorter period, one "
        f"state, one workflow or queue, or a smaller page",
        seconds=seconds,
    )
