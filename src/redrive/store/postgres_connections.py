"""Connections to PostgreSQL: a pool for one event loop, and single connections that are not shared.

A connection keeps no state between uses, so it needs no reset. Connections of tenants do keep state, and
remember it. After the server went away or became read-only, all connections are replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

from redrive.errors import InvalidValueError, StoreError
from redrive.store.postgres_failure import contains_values, failure_of, is_stale, place_of

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
RELEASE_TIMEOUT = 5.0
IDLE_TIMEOUT_MS = 30_000
"""How long a worker that freezes inside a transaction keeps its row locks."""
MAX_IDLE_SECONDS = 300.0

_NO_RUN = bytes(16)
_SETTINGS = {
    "application_name": "redrive",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS),
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
"""Every statement that works on many rows has an index to use. Without these settings, statistics from before
a burst, when the table was empty, would make PostgreSQL read and sort all ready work for every claim."""


class Connections:
    """Lends up to `most` connections at a time, each to one borrower, the last returned one first.

    The pool of asyncpg lends a proxy of each connection and resets it afterwards. Neither is needed here, and
    both together took a third of the time of a short statement.
    """

    def __init__(
        self, url: str, *, pooler: bool, most: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.driver = _driver()
        self.place = place_of(url)
        self._url = url
        self._most = most
        self._options = _options(url, settings or {}, pooler=pooler)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(most)
        self._idle: list[_Idle] = []
        self._generation = 0

    def borrowed(self) -> Loan:
        return Loan(self)

    async def lend(self) -> Lent:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections of another loop can neither be used nor closed in this one
            self._loop, self._turns, self._idle = loop, asyncio.Semaphore(self._most), []
        turns = self._turns
        await turns.acquire()
        try:
            connection = self._idle_one() or await self.call(self.single)
        except BaseException:
            turns.release()
            raise
        return Lent(connection, self._generation, turns)

    def take_back(self, lent: Lent, *, cancelled: bool) -> None:
        """Return a connection. Terminate it if its statement was cancelled: the server may be silent.

        asyncpg would let the next statement wait for the end of the cancelled one.
        """
        connection = lent.connection
        if cancelled or lent.generation != self._generation:
            self.throw_away(connection)
        elif not connection.is_closed():
            now = asyncio.get_running_loop().time()
            self._idle.append(_Idle(connection, now))
            while now - self._idle[0].since > MAX_IDLE_SECONDS:
                self.throw_away(self._idle.pop(0).connection)

    async def single(self) -> Any:
        connection = await self.driver.connect(self._url, **self._options)
        try:
            await connection.set_type_codec(
                "uuid", schema="pg_catalog", encoder=_id_bytes, decoder=_id_text, format="binary"
            )
        except BaseException:
            self.throw_away(connection)
            raise
        return connection

    def throw_away(self, connection: Any) -> None:
        with suppress(self.driver.InterfaceError):  # it is closed already
            connection.terminate()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        if self._loop is asyncio.get_running_loop():
            await asyncio.gather(*(connection.close() for connection, _ in idle))

    async def call(self, ask: Callable[..., Awaitable[T]], *values: Any, **options: Any) -> T:
        """Call the driver and wait for the answer; convert its errors to errors of the store."""
        try:
            return await ask(*values, **options)
        except Exception as error:
            failure = failure_of(error, self.place)
            if failure is None:
                raise
            if is_stale(error):
                self._expire()
            raise failure from (None if contains_values(error) else error)

    def _idle_one(self) -> Any:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _expire(self) -> None:
        """Replace all connections. Lent ones are closed when they are returned."""
        self._generation += 1
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.throw_away(connection)


def _id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a run id; zeros, which no run has, for text that is not an id."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return _NO_RUN
    return value if len(value) == len(_NO_RUN) else _NO_RUN


_id_text = bytes.hex


class Lent(NamedTuple):
    """A lent connection. One of an earlier generation is closed when it is returned."""

    connection: Any
    generation: int
    turns: asyncio.Semaphore


class Loan:
    """Borrows one connection for an `async with` block. A generator would make every statement slower.

    is_settled  a transaction was rolled back, so no cancelled statement is running on the connection
    """

    __slots__ = ("_connections", "_lent", "is_settled")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.is_settled = False

    async def __aenter__(self) -> Any:
        self._lent = await self._connections.lend()
        return self._lent.connection

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError) and not self.is_settled
        try:
            self._connections.take_back(self._lent, cancelled=cancelled)
        finally:
            self._lent.turns.release()


class _Idle(NamedTuple):
    connection: Any
    since: float


def _driver() -> Any:
    try:
        import asyncpg
    except ModuleNotFoundError as missing:
        raise StoreError("PostgreSQL needs the driver asyncpg: pip install 'redrive[postgres]'") from missing
    return asyncpg


@cache
def _connection_class() -> Any:
    class Connection(_driver().Connection):  # type: ignore[misc]
        tenant_settings: object = None
        """The settings made for the current user of the connection; None if they are not certain."""

        async def close(self, **options: Any) -> None:
            """Close the connection without waiting for a silent server, as asyncpg would."""
            with suppress(Exception):
                await asyncio.wait_for(super().close(**options), RELEASE_TIMEOUT)

    return Connection


def _options(url: str, settings: Mapping[str, str], *, pooler: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": CONNECT_TIMEOUT, "command_timeout": COMMAND_TIMEOUT}
    options["connection_class"] = _connection_class()
    if _has_several_hosts(url):
        options["target_session_attrs"] = "read-write"
    if pooler:
        return options | {"statement_cache_size": 0}
    return options | {"server_settings": {**_SETTINGS, **settings}}


def _has_several_hosts(url: str) -> bool:
    """Return whether a URL names several hosts and does not choose one by `target_session_attrs`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidValueError("the address of the PostgreSQL database is not a URL") from None
    options = parse_qs(parts.query)
    hosts = [parts.netloc.rpartition("@")[2], *options.get("host", [])]
    return any("," in host for host in hosts) and "target_session_attrs" not in options
