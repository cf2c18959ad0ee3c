"""The hosts in the address of a PostgreSQL database: the first one that accepts a login is used.

If a host is silent for HOST_DELAY seconds, the next one is tried as well. A single host is tried again in the
same way: a network that has just come back delivers a new attempt sooner than one that it has dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from redrive.errors import InvalidValueError

CONNECT_TIMEOUT = 10.0
HOST_DELAY = 2.0

LogIn = Callable[[str], Coroutine[Any, Any, Any]]
Attempts = dict[asyncio.Task[Any], str]


class Hosts:
    """`addresses` holds one address per host, in the order of the attempts: the last good one first."""

    def __init__(self, url: str) -> None:
        try:
            self.addresses = _addresses(url)
        except ValueError:
            raise InvalidValueError("the address of the PostgreSQL database is not a URL") from None
        self._options = parse_qs(urlsplit(url).query)

    @property
    def need_the_primary(self) -> bool:
        """Whether one of several hosts must be chosen, and the address does not say which kind."""
        return len(self.addresses) > 1 and "target_session_attrs" not in self._options

    async def connect(self, log_in: LogIn) -> Any:
        """Return the first connection that `log_in` opens to one of the addresses."""
        attempts: Attempts = {}
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._first(log_in, attempts)
        except BaseException:  # the caller may have less time than CONNECT_TIMEOUT
            for address in attempts.values():
                self.suspect(address)
            raise
        finally:
            await _abandon(attempts)

    def suspect(self, address: str) -> None:
        """Try this address last."""
        self.addresses.sort(key=lambda known: known == address)

    async def _first(self, log_in: LogIn, attempts: Attempts) -> Any:
        left, errors = deque(self.addresses), list[Exception]()
        while left or attempts:
            if left:
                attempts[asyncio.create_task(log_in(left[0]))] = left[0]
                left.rotate(-1)
            done, _ = await asyncio.wait(
                attempts, timeout=HOST_DELAY if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                address = attempts.pop(attempt)
                error = attempt.exception()
                if error is None:
                    self._prefer(address)
                    return attempt.result()
                if not isinstance(error, _passing()):
                    raise error
                errors.append(error)
                left = deque(other for other in left if other != address)
        raise next((error for error in errors if isinstance(error, OSError)), errors[0])

    def _prefer(self, address: str) -> None:
        self.addresses.sort(key=lambda known: known != address)


def _passing() -> tuple[type[Exception], ...]:
    """Return the errors of a host after which another one may work."""
    import asyncpg

    no_server = asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError  # starting; it hung up
    return OSError, *no_server, asyncpg.TargetServerAttributeNotMatched


async def _abandon(attempts: Attempts) -> None:
    for attempt in attempts:
        attempt.cancel()
    for outcome in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            outcome.terminate()


def _addresses(url: str) -> list[str]:
    """Return the address once for each host that it names, before the path or as the option `host`."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [urlunsplit(parts._replace(netloc=f"{login}{at}{host}")) for host in hosts.split(",")]
    options = parse_qsl(parts.query, keep_blank_values=True)
    named = dict(options)
    if hosts or "," not in named.get("host", ""):
        return [url]
    several, port = named["host"].split(","), named.get("port", "")
    ports = port.split(",") if "," in port else [port] * len(several)
    return [
        f"{url.partition('?')[0]}?{_query(options, host=host, port=port)}"
        for host, port in zip(several, ports, strict=True)
    ]


def _query(options: list[tuple[str, str]], **changes: str) -> str:
    return urlencode([(name, changes.get(name, value)) for name, value in options])
