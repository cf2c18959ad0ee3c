"""Connections to PostgreSQL: a pool for one event loop, and single connections that are not shared.

A connection keeps no state between uses, so it needs no reset. Connections of tenants do keep state, and
remember it. After the server went away, fell silent or became read-only, all connections are replaced.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar

from redrive.errors import StoreError
from redrive.forking import ResetInChild, join_forks, never_finalize
from redrive.store.postgres_cancellation import Cancellations
from redrive.store.postgres_failure import contains_values, failure_of, is_silence, is_stale, place_of
from redrive.store.postgres_hosts import CONNECT_TIMEOUT, Hosts
from redrive.store.postgres_types import ARRAYS, NOTHING_SENT, id_bytes, id_text
from redrive.store.postgres_watch import Watch

T = TypeVar("T")

COMMAND_TIMEOUT = 60.0
ANSWER_TIMEOUT = 3.0
"""How long a server that keeps a statement waiting may take to answer a new login."""
RELEASE_TIMEOUT = 2.0
IDLE_TIMEOUT_MS = 30_000
"""How long a worker that freezes inside a transaction keeps its row locks."""
MAX_IDLE_SECONDS = 300.0

_SETTINGS = {
    "application_name": "redrive",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS),
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Every statement that works on many rows has an index to use. Without the planner's settings, statistics
from before a burst, when the table was empty, would make PostgreSQL read and sort all ready work for each
claim. With the settings of TCP, the server soon drops the locks of a client that the network has cut off."""


_SOCKET_OPTIONS = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""The same for this end. An operating system may lack some of them."""


class Connections(ResetInChild):
    """Lends up to `most` connections at a time, each to one borrower, the last returned one first.

    The pool of asyncpg lends a proxy of each connection and resets it afterwards. Neither is needed here, and
    both together took a third of the time of a short statement.
    """

    def __init__(
        self, url: str, *, pooler: bool, most: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.driver = _driver()
        self.place = place_of(url)
        self._hosts = Hosts(url)
        self._most = most
        self._options = _options(self._hosts, settings or {}, pooler=pooler)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(most)
        self._watch = Watch(self._answers, self._leave)
        self._cancellations = Cancellations(self.throw_away)
        self._idle: list[_Idle] = []
        self._generation = 0
        join_forks(self)

    def after_fork_in_child(self) -> None:
        """Leave all connections to the parent: both would read from the same sockets."""
        never_finalize(self._loop, self._idle, self._watch, self._cancellations)
        self._loop, self._idle = None, []

    def borrowed(self) -> Loan:
        return Loan(self)

    async def lend(self) -> Lent:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections of another loop can neither be used nor closed in this one
            self._loop, self._turns, self._idle = loop, asyncio.Semaphore(self._most), []
            self._watch = Watch(self._answers, self._leave)
            self._cancellations = Cancellations(self.throw_away)
        turns = self._turns
        await turns.acquire()
        try:
            connection = self._idle_one() or await self.call(self.single)
        except BaseException:
            turns.release()
            raise
        self._watch.add(connection, loop)
        return Lent(connection, self._generation, turns)

    def take_back(self, lent: Lent, *, cancelled: bool) -> None:
        """Return a connection. It is not lent again if its statement was cancelled: the server may be silent.

        asyncpg would let the next statement wait for the end of the cancelled one.
        """
        connection = lent.connection
        self._watch.remove(connection)
        if cancelled:
            self._cancellations.end(connection)
        elif lent.generation != self._generation:
            self.throw_away(connection)
        elif not connection.is_closed():
            now = asyncio.get_running_loop().time()
            self._idle.append(_Idle(connection, now))
            while now - self._idle[0].since > MAX_IDLE_SECONDS:
                self.throw_away(self._idle.pop(0).connection)

    async def single(self) -> Any:
        return await self._hosts.connect(self._log_in)

    async def _log_in(self, address: str) -> Any:
        connection = await self.driver.connect(address, **self._options)
        connection.address = address
        try:
            await connection.set_type_codec(
                "uuid", schema="pg_catalog", encoder=id_bytes, decoder=id_text, format="binary"
            )
        except BaseException:
            self.throw_away(connection)
            raise
        return connection

    def throw_away(self, connection: Any) -> None:
        with suppress(self.driver.InterfaceError):  # it is closed already
            connection.terminate()

    async def wait_for_cancelled(self) -> None:
        """Wait for the end of cancelled statements, at most a moment; see `Cancellations`."""
        if self._loop is asyncio.get_running_loop():
            await self._cancellations.wait()

    async def close(self) -> None:
        await self.wait_for_cancelled()
        idle, self._idle = self._idle, []
        if self._loop is asyncio.get_running_loop():
            self._watch.stop()
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

    async def _answers(self, address: str) -> bool:
        """Whether the server at this address answers a login, be it with an error."""
        try:
            connection = await self.driver.connect(address, **self._options | {"timeout": ANSWER_TIMEOUT})
        except Exception as error:  # noqa: BLE001 — an error that the server reports is an answer
            return not is_silence(error)
        self.throw_away(connection)
        return True

    def _leave(self, address: str, lent: list[Any]) -> None:
        """Give up the connections to a silent server, with the statements that wait there."""
        self._hosts.suspect(address)
        self._expire()
        for connection in lent:
            self.throw_away(connection)

    def _expire(self) -> None:
        """Replace all connections. Lent ones are closed when they are returned."""
        self._generation += 1
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.throw_away(connection)


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

        address = ""
        """The address with the host of this connection."""

        def __init__(self, protocol: Any, transport: Any, *others: Any) -> None:
            super().__init__(protocol, transport, *others)
            _notice_silence(transport.get_extra_info("socket"))

        async def close(self, **options: Any) -> None:
            """Close the connection without waiting for a silent server, as asyncpg would."""
            with suppress(Exception):
                await asyncio.wait_for(super().close(**options), RELEASE_TIMEOUT)

        async def _introspect_types(self, oids: Sequence[int], *options: Any) -> Any:
            """Describe arrays. For these, asyncpg would send three statements on every new connection.

            The answer includes the statement that was sent last: asyncpg prepares its own again after an
            unnamed one.
            """
            if ARRAYS.keys() >= set(oids):
                return [ARRAYS[oid] for oid in oids], NOTHING_SENT
            return await super()._introspect_types(oids, *options)

    return Connection


def _notice_silence(connected: Any) -> None:
    """Let the operating system report a peer that does not acknowledge within seconds."""
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _options(hosts: Hosts, settings: Mapping[str, str], *, pooler: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": CONNECT_TIMEOUT, "command_timeout": COMMAND_TIMEOUT}
    options["connection_class"] = _connection_class()
    if hosts.need_the_primary:
        options["target_session_attrs"] = "read-write"
    if pooler:
        return options | {"statement_cache_size": 0}
    return options | {"server_settings": {**_SETTINGS, **settings}}
