"""Connections to PostgreSQL: some to borrow in one event loop, and single ones that are not shared.

No connection carries a state from one use to the next, so nothing has to be reset; those of tenants carry
one, and remember which. When the server went away or became read-only, all of them are made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

from redrive.errors import InvalidValueError, StoreError
from redrive.store.postgres_failure import failure_of, is_indiscreet, is_stale, place_of

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
RELEASE_TIMEOUT = 5.0
IDLE_TIMEOUT_MS = 30_000
"""A worker that is frozen inside of a transaction keeps its row locks for this long."""
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
"""Every statement that works on many rows has an index. PostgreSQL's statistics do not know of a burst: where
the table was empty before, PostgreSQL would read and sort all ready work for every claim."""


class Connections:
    """Lends at most `most` connections at a time, each to one borrower; the last one returned goes first.

    asyncpg's own pool lends a proxy of each connection and prepares it for a reset that is not needed here;
    that took a third of the time of a short statement.
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
        if self._loop is not loop:  # connections of another loop cannot be used in this one, nor closed
            self._loop, self._turns, self._idle = loop, asyncio.Semaphore(self._most), []
        turns = self._turns
        await turns.acquire()
        try:
            connection = self._idle_one() or await self.asked(self.single)
        except BaseException:
            turns.release()
            raise
        return Lent(connection, self._generation, turns)

    def take_back(self, lent: Lent) -> None:
        """A cancelled statement may still be in progress: the next one on it waits for its end."""
        connection = lent.connection
        if lent.generation != self._generation:
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
        with suppress(self.driver.InterfaceError):  # it is away already
            connection.terminate()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        if self._loop is asyncio.get_running_loop():
            await asyncio.gather(*(connection.close() for connection, _ in idle))

    async def asked(self, ask: Callable[..., Awaitable[T]], *values: Any, **options: Any) -> T:
        """Ask the server, and wait for its answer; what goes wrong is told in the words of the store."""
        try:
            return await ask(*values, **options)
        except Exception as error:
            failure = failure_of(error, self.place)
            if failure is None:
                raise
            if is_stale(error):
                self._expire()
            raise failure from (None if is_indiscreet(error) else error)

    def _idle_one(self) -> Any:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _expire(self) -> None:
        """Make all connections anew: those that are lent are thrown away when they come back."""
        self._generation += 1
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.throw_away(connection)


def _id_bytes(text: str) -> bytes:
    """The 16 bytes of a run's id. A text that is no id is that of no run: zeros."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return _NO_RUN
    return value if len(value) == len(_NO_RUN) else _NO_RUN


_id_text = bytes.hex


class Lent(NamedTuple):
    """A connection that a borrower has. One of an earlier generation is thrown away when it comes back."""

    connection: Any
    generation: int
    turns: asyncio.Semaphore


class Loan:
    """`async with` one connection. A class, since a generator in its place would cost every statement."""

    __slots__ = ("_connections", "_lent")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> Any:
        self._lent = await self._connections.lend()
        return self._lent.connection

    async def __aexit__(self, *_: object) -> None:
        try:
            self._connections.take_back(self._lent)
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
        standing: object = None
        """What was set for whoever uses it, as far as that is known for certain."""

        async def close(self, **options: Any) -> None:
            """Whether the server hears of it or not: asyncpg would wait for it, and complain."""
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
    """And does not say itself which of them is meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidValueError("the address of the PostgreSQL database is not a URL") from None
    options = parse_qs(parts.query)
    hosts = [parts.netloc.rpartition("@")[2], *options.get("host", [])]
    return any("," in host for host in hosts) and "target_session_attrs" not in options
