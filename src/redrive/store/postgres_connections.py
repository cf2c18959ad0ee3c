"""Connections to PostgreSQL: a pool for each event loop, and single ones that are not shared.

No connection carries a state from one use to the next, so nothing has to be reset; those of tenants carry
one, and remember which. When the server went away or became read-only, all of them are made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from redrive.errors import InvalidValueError, StoreError
from redrive.store.postgres_failure import failure_of, is_indiscreet, is_stale, place_of

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
RELEASE_TIMEOUT = 5.0
IDLE_TIMEOUT_MS = 30_000
"""A worker that is frozen inside of a transaction keeps its row locks for this long."""

_SETTINGS = {
    "application_name": "redrive",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS),
    "jit": "off",
}


class Connections:
    def __init__(
        self, url: str, *, pooler: bool, most: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.driver = _driver()
        self.place = place_of(url)
        self._url = url
        self._most = most
        self._options = _options(url, settings or {}, pooler=pooler)
        self._pool: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Any]:
        pool = await self._ready_pool()
        connection = await self.asked(pool.acquire)
        try:
            yield connection
        finally:
            with suppress(StoreError):  # the pool throws it away then
                await self.asked(pool.release, connection, timeout=RELEASE_TIMEOUT)

    async def single(self) -> Any:
        return await self.driver.connect(self._url, **self._options)

    def throw_away(self, connection: Any) -> None:
        with suppress(self.driver.InterfaceError):  # it is away already
            connection.terminate()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._loop is asyncio.get_running_loop():
            with suppress(StoreError):
                await self.asked(asyncio.wait_for, pool.close(), RELEASE_TIMEOUT)

    async def asked(self, ask: Callable[..., Awaitable[T]], *values: Any, **options: Any) -> T:
        """Ask the server, and wait for its answer; what goes wrong is told in the words of the store."""
        try:
            return await ask(*values, **options)
        except Exception as error:
            failure = failure_of(error, self.place)
            if failure is None:
                raise
            if self._pool is not None and is_stale(error):
                await self._pool.expire_connections()
            raise failure from (None if is_indiscreet(error) else error)

    async def _ready_pool(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:
            sizes = {"min_size": 0, "max_size": self._most}
            pool = self.driver.create_pool(self._url, **sizes, reset=_nothing_to_reset, **self._options)
            await pool  # for nothing, as it begins without a connection
            self._pool, self._loop = pool, loop
        return self._pool


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

        def stand(self, standing: object) -> None:
            # The pool lends a proxy, whose attributes cannot be set.
            self.standing = standing

        async def close(self, **options: Any) -> None:
            """Whether the server hears of it or not: asyncpg would wait for it, and complain."""
            with suppress(Exception):
                await asyncio.wait_for(super().close(**options), RELEASE_TIMEOUT)

    return Connection


async def _nothing_to_reset(_connection: Any) -> None:
    """Saves the round trip in which asyncpg would reset what was never set."""


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
