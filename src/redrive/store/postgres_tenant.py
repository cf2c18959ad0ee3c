"""PostgreSQL for the requests of one organization: row-level security in addition to the org filters.

Its connections use a role that has only the privileges that requests need (see `row_level_security`). The
policies show this role only rows of the organization that is set on the connection, and no rows while none is
set. A database with a single organization may lack the role; then only the timeout is set.

A connection serves many organizations in turn. It remembers which one is set, so that the next request of the
same organization needs no extra statement. The organization is set outside transactions, because a rollback
would silently undo it.

Behind a transaction pooler no setting outlives a transaction, so each statement runs in its own transaction.
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
from redrive.store.statement import Statement

T = TypeVar("T")

CONNECTIONS = 8
MAX_PER_CALLER = CONNECTIONS - 2
"""Connections that one org may use at once, so that its slow statements leave connections for other orgs."""

_SET_TENANT = """SELECT pg_catalog.set_config('redrive_tenant.org', $1, false),
    pg_catalog.set_config('statement_timeout', $2, false), current_user"""
# The org in hexadecimal digits: a text of several statements has no parameters.
_BEGIN_POOLED = (
    f"{BEGIN}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}; SET LOCAL ROLE {{role}}; "
    "SET LOCAL statement_timeout = {limit}; SELECT pg_catalog.set_config('redrive_tenant.org', "
    "pg_catalog.convert_from(pg_catalog.decode('{org}', 'hex'), 'UTF8'), true)"
)


class TenantSettings(NamedTuple):
    """The organization set on a connection, and the statement timeout in milliseconds."""

    org: str
    limit: int


class PostgresTenant(PostgresSession):
    def __init__(
        self,
        connections: Connections,
        schema: str,
        texts: dict[str, str],
        org: str,
        seconds: float,
        role: str | None,
    ) -> None:
        super().__init__(connections, schema, texts=texts)
        self._seconds = seconds
        self._role = role
        self._tenant_settings = TenantSettings(org, ceil(seconds * 1000))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(MAX_PER_CALLER)

    async def _call(self, ask: Callable[..., Awaitable[T]], *values: Any) -> T:
        try:
            return await super()._call(ask, *values)
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
        if connection.tenant_settings != self._tenant_settings:
            await self._set_tenant(connection)

    async def _set_tenant(self, connection: Any) -> None:
        # Unknown until the server confirms: a cancelled statement may have been executed.
        connection.tenant_settings = None
        org, limit = self._tenant_settings
        [[*_, user]] = await self._call(connection.fetch, _SET_TENANT, org, str(limit))
        if self._role not in (None, user):
            raise StoreError(
                f"{self._connections.place} did not switch to the role {self._role!r}, so organizations "
                f"would not be isolated; behind a transaction pooler, set pooler=True"
            )
        connection.tenant_settings = self._tenant_settings


class PooledTenant(PostgresTenant):
    """A tenant behind a transaction pooler."""

    def __init__(
        self,
        connections: Connections,
        schema: str,
        texts: dict[str, str],
        org: str,
        seconds: float,
        role: str | None,
    ) -> None:
        super().__init__(connections, schema, texts, org, seconds, role)
        spelled = {
            "role": "NONE" if role is None else quoted(role),
            "limit": self._tenant_settings.limit,
            "org": org.encode().hex(),
        }
        self._begin = _BEGIN_POOLED.format(**spelled)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        async with self.transaction() as session:
            return await session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        async with self.transaction() as session:
            return await session.fetch_many(statement, rows)

    async def _prepare(self, connection: Any) -> None:
        """Do nothing: the first statement of every transaction sets the organization."""


class TenantLoan(Loan):
    """Borrows a connection prepared for one organization, which may use `places` connections at once."""

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
        except BaseException as error:
            await self.__aexit__(type(error))
            raise
        return connection

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await super().__aexit__(kind)
        finally:
            self._places.release()
