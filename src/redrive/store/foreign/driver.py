"""A driver: how statements are executed over a connection of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import Any, Protocol

from redrive.store.database import Row
from redrive.store.foreign.spelling import Spelling


class Driver(Protocol):
    spelling: Spelling
    is_async: bool

    def check(self) -> None:
        """Raise InvalidValueError when there is clearly no transaction to join."""

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Suspends only when the connection is async."""


async def settled(value: Any) -> Any:
    """What a method has given, be it sync or async: drivers have two connections with the same methods."""
    return await value if isawaitable(value) else value
