"""Types of PostgreSQL: each test process asks a server about built-in ones once, not on every connection.

asyncpg knows arrays of text only. For an array of numbers it sends three more statements on each new
connection, about 10 ms of CPU, and tests open thousands of connections. Built-in types are the same in every
database.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import wraps
from types import SimpleNamespace
from typing import Any

from asyncpg.connection import Connection

FIRST_OTHER_OID = 16384
"""Types with smaller numbers belong to PostgreSQL itself."""

_known: dict[frozenset[int], Any] = {}


def remember_built_in_types() -> None:
    original = Connection._introspect_types

    @wraps(original)
    async def introspect(connection: Any, oids: Collection[int], timeout: float | None) -> Any:
        wanted = frozenset(oids)
        if wanted in _known:
            # Nothing was sent, so the connection still has the statement that it was preparing.
            return _known[wanted], SimpleNamespace(name="known")
        types, statement = await original(connection, oids, timeout)
        if max(wanted) < FIRST_OTHER_OID:
            _known[wanted] = types
        return types, statement

    Connection._introspect_types = introspect
