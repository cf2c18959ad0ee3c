"""Connections of psycopg 3, sync and async."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redrive.errors import InvalidValueError
from redrive.store.database import Row
from redrive.store.foreign.driver import settled
from redrive.store.foreign.spelling import PSYCOPG, named


class PsycopgDriver:
    spelling = PSYCOPG

    def __init__(self, connection: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self._connection = connection

    def check(self) -> None:
        """Without autocommit, psycopg begins a transaction with the first statement."""
        if self._connection.autocommit and self._connection.info.transaction_status.name == "IDLE":
            inside = "async with" if self.is_async else "with"
            raise InvalidValueError(
                f"the psycopg connection has autocommit on and is in no transaction, so there is nothing to "
                f"join; do it inside of `{inside} connection.transaction():`"
            )

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        cursor = self._cursor()
        try:
            await settled(cursor.execute(text, named(values)))
            return await settled(cursor.fetchall()) if cursor.description else []
        finally:
            await settled(cursor.close())

    def _cursor(self) -> Any:
        """A plain one: the user's own factories may give other rows, or want other placeholders."""
        from psycopg import AsyncCursor, Cursor

        kind: Any = AsyncCursor if self.is_async else Cursor
        return kind(self._connection, row_factory=_tuples)


def _tuples(_cursor: object) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple
