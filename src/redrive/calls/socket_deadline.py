"""Limits all socket operations of a sync attempt together, not each one for itself.

httpx2 gives every read, write and connection attempt the whole timeout, so a server that sends a byte now and
then would never exceed it. The backend here gives each operation only the remaining time of the attempt.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ssl import SSLContext
from typing import Any

import httpcore2
import httpx2

from redrive.calls.attempt import CURRENT

_MIN_SECONDS = 0.001
_CHUNK = 65_536
"""Bytes sent with one timeout. A slow receiver can exceed the deadline by at most the sends of one chunk."""


def limit_sockets(client: httpx2.Client) -> None:
    """Make all connections of a client, also those through proxies, end with the attempt that uses them."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            pool = transport._pool
            pool._network_backend = DeadlineBackend(pool._network_backend)


class DeadlineBackend(httpcore2.NetworkBackend):
    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Try all addresses of the host, in the time that is left for all of them."""
        *others, last = _addresses(host, port)
        for address in others:
            try:
                return self._connect(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._connect(last, port, timeout, local_address, socket_options)

    def _connect(self, address: str, port: int, timeout: float | None, *options: Any) -> DeadlineStream:
        seconds = _seconds_left(timeout, httpcore2.ConnectTimeout)
        return DeadlineStream(self._inner.connect_tcp(address, port, seconds, *options))


class DeadlineStream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _seconds_left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _CHUNK):
            chunk = buffer[start : start + _CHUNK]
            self._inner.write(chunk, _seconds_left(timeout, httpcore2.WriteTimeout))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> DeadlineStream:
        seconds = _seconds_left(timeout, httpcore2.ConnectTimeout)
        return DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, seconds))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _seconds_left(timeout: float | None, error: type[Exception]) -> float | None:
    """Return the remaining time of the attempt, or raise the error of httpcore2 if there is none."""
    attempt = CURRENT.get()
    if attempt is None:
        return timeout
    seconds = attempt.remaining()
    if seconds <= 0.0:
        raise error(f"the attempt has run out of time: {attempt!r}")
    return max(_MIN_SECONDS, seconds)


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(error) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
