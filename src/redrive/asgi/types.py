"""The types of ASGI, as its specification has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Http: TypeAlias = MutableMapping[str, Any]
"""What ASGI calls the scope: the request, without its body."""
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Http, Receive, Send], Awaitable[None]]


def header_values(http: Http, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in http["headers"] if key.lower() == name]
