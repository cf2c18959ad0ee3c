"""Connections of asyncpg, and those that its pool lends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redrive.errors import InvalidValueError
from redrive.store.database import Row
from redrive.store.foreign.spelling import ASYNCPG


class AsyncpgDriver:
    spelling = ASYNCPG
    is_async = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def check(self) -> None:
        if not self._connection.is_in_transaction():
            raise InvalidValueError(
                "the asyncpg connection is in no transaction, so there is nothing to join; "
                "do it inside of `async with connection.transaction():`"
            )

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        rows: list[Row] = await self._connection.fetch(text, *values)
        return rows
