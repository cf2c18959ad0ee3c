"""PostgreSQL for the requests of one organization: row-level security behind the filters of the statements.

Its connections belong to a role that has only the rights that requests need (see `row_level_security`), and
the policies show that role the rows of one organization: the one that was set on the connection. While none
is set there are no rows. One connection serves many organizations, one after the other; it remembers which
one was set, so that the next request of the same organization costs nothing more. It is set outside of
transactions, because a rollback would silently undo it.

Behind a transaction pooler nothing can be set for longer than a transaction, so each statement is one there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple, TypeVar

from redrive.errors import StoreError, StoreUnavailableError
from redrive.store.database import Row, out_of_time
from redrive.store.postgres_connections import IDLE_TIMEOUT_MS, Connections, Loan
from redrive.store.postgres_failure import is_out_of_time
from redrive.store.postgres_migration import quoted
from redrive.store.postgres_session import BEGIN, PostgresSession
from redrive.store.row_level_security import tenant_role
from redrive.store.statement import Statement

T = TypeVar("T")

CONNECTIONS = 8
MAX_PER_CALLER = CONNECTIONS - 2
"""So many of them serve one org at once: however long its statements take, others find one."""

_STAND = """SELECT pg_catalog.set_config('redrive_tenant.org', $1, false),
    pg_catalog.set_config('statement_timeout', $2, false), current_user"""
# The org in hexadecimal digits: a text of several statements has no parameters.
_BEGIN_POOLED = (
    f"{BEGIN}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}; SET LOCAL ROLE {{role}}; "
    "SET LOCAL statement_timeout = {limit}; SELECT pg_catalog.set_config('redrive_tenant.org', "
    "pg_catalog.convert_from(pg_catalog.decode('{org}', 'hex'), 'UTF8'), true)"
)


class TenantSettings(NamedTuple):
    """For whom a connection is set, and how many milliseconds a statement may take."""

    org: str
    limit: int


class PostgresTenant(PostgresSession):
    def __init__(
        self, connections: Connections, schema: str, texts: dict[str, str], org: str, seconds: float
    ) -> None:
        super().__init__(connections, schema, texts=texts)
        self._seconds = seconds
        self._role = tenant_role(schema)
        self._standing = TenantSettings(org, ceil(seconds * 1000))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(MAX_PER_CALLER)

    async def _asked(self, ask: Callable[..., Awaitable[T]], *values: Any) -> T:
        try:
            return await super()._asked(ask, *values)
        except StoreUnavailableError as error:
            if is_out_of_time(error.__cause__):
                raise out_of_time(self._seconds) from error.__cause__
            raise

    def _borrowed(self) -> Loan:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._places = loop, asyncio.Semaphore(MAX_PER_CALLER)
        return TenantLoan(self._connections, self._places, self._prepare)

    async def _prepare(self, connection: Any) -> None:
        if connection.standing != self._standing:
            await self._stand(connection)

    async def _stand(self, connection: Any) -> None:
        # Until the server has confirmed it: what is cancelled may yet have been done.
        connection.standing = None
        org, limit = self._standing
        [[*_, user]] = await self._asked(connection.fetch, _STAND, org, str(limit))
        if user != self._role:
            raise StoreError(
                f"{self._connections.place} did not take the role {self._role!r}, so the orgs would not be "
                f"kept apart; with a transaction pooler in between, say pooler=True"
            )
        connection.standing = self._standing


class PooledTenant(PostgresTenant):
    """The same behind a transaction pooler."""

    def __init__(
        self, connections: Connections, schema: str, texts: dict[str, str], org: str, seconds: float
    ) -> None:
        super().__init__(connections, schema, texts, org, seconds)
        spelled = {"role": quoted(self._role), "limit": self._standing.limit, "org": org.encode().hex()}
        self._begin = _BEGIN_POOLED.format(**spelled)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self.transaction() as session:
            return await session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self.transaction() as session:
            return await session.fetch_many(statement, rows)

    async def _prepare(self, connection: Any) -> None:
        """Every transaction is set for the organization by its first statement."""


class TenantLoan(Loan):
    """A connection that is prepared for one organization, which has so many `places` at a time."""

    __slots__ = ("_places", "_prepare")

    def __init__(
        self, connections: Connections, places: asyncio.Semaphore, prepare: Callable[[Any], Awaitable[None]]
    ) -> None:
        super().__init__(connections)
        self._places = places
        self._prepare = prepare

    async def __aenter__(self) -> Any:
        await self._places.acquire()
        try:
            connection = await super().__aenter__()
        except BaseException:
            self._places.release()
            raise
        try:
            await self._prepare(connection)
        except BaseException:
            await self.__aexit__()
            raise
        return connection

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            self._places.release()
