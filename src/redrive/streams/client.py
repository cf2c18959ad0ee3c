"""Clients of Redis, and what their errors mean."""

from __future__ import annotations

import asyncio
from typing import Any

from redrive.errors import RedriveError
from redrive.events import Stream
from redrive.model.fact import Fact, fact

MISSING = "reading streams needs the package redis; install it with: pip install 'redrive[redis]'"
SOCKET_SECONDS = 10.0
CONNECT_SECONDS = 5.0


class DecodingClientError(RedriveError):
    """The client decodes responses, so it cannot read binary fields."""


def connect(stream: Stream) -> Any:
    """Create the client of a stream. It connects when it is used."""
    if callable(stream.url):
        client = stream.url()
        if _decodes(client):
            raise DecodingClientError(
                "the Redis client decodes responses; create it with decode_responses=False"
            )
        return client
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError:
        raise RedriveError(MISSING) from None
    # The consumer repeats and reports by itself; a command that may have taken effect is not sent twice.
    return Redis.from_url(
        stream.url,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=CONNECT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a client raises, after which another attempt may succeed."""
    try:
        from redis.exceptions import RedisError
    except ModuleNotFoundError:
        raise RedriveError(MISSING) from None
    return (RedisError, OSError, asyncio.TimeoutError, DecodingClientError)


def problem(error: BaseException, key: str = "") -> Fact:
    """Return what an error of Redis on a key means, as a fact for `redrive.words.stream`."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, DecodingClientError):
        return fact("redis_decodes")
    if text.startswith("WRONGTYPE"):
        return fact("redis_wrong_type", key=key)
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_CLASS:
            return fact(_BY_CLASS[kind.__name__], error=text)
    if is_missing(error):
        return fact("redis_group_missing")
    for start, code in _BY_START.items():
        if text.startswith(start):
            return fact(code, error=text)
    if isinstance(error, OSError | asyncio.TimeoutError) or _is_connection_error(error):
        return fact("redis_unreachable", error=text or type(error).__name__)
    return fact("redis_error", error=text or type(error).__name__)


def is_missing(error: BaseException) -> bool:
    """Return whether the stream or its group does not exist."""
    text = str(error)
    return text.startswith("NOGROUP") or "no such key" in text or "requires the key to exist" in text


_BY_CLASS = {
    "AuthenticationError": "redis_wrong_password",
    "AuthenticationWrongNumberOfArgsError": "redis_wrong_password",
    "BusyLoadingError": "redis_loading",
    "ReadOnlyError": "redis_read_only",
    "OutOfMemoryError": "redis_out_of_memory",
    "NoPermissionError": "redis_not_permitted",
}
_BY_START = {
    "NOAUTH": "redis_wrong_password",
    "WRONGPASS": "redis_wrong_password",
    "LOADING": "redis_loading",
    "READONLY": "redis_read_only",
    "You can't write against a read only replica": "redis_read_only",
    "OOM": "redis_out_of_memory",
    "NOPERM": "redis_not_permitted",
}


def _is_connection_error(error: BaseException) -> bool:
    return any(kind.__name__ in ("ConnectionError", "TimeoutError") for kind in type(error).__mro__)


def _decodes(client: Any) -> bool:
    try:
        return bool(client.get_encoder().decode_responses)
    except AttributeError:
        return False
