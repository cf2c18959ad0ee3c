"""What the doctor asks of a PostgreSQL server: how it keeps what it is given, and what hinders it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.store.postgres_session import PostgresSession
from redrive.store.statement import statements

_SQL = statements("postgres_condition")
MAX_COUNT = 20


class Server(NamedTuple):
    """`clock` is its time; `hidden`, how many sessions of others this user may not see into."""

    version: str
    in_recovery: bool
    bytes: int
    connections: int
    hidden: int
    clock: float


class Transaction(NamedTuple):
    """Begun so long ago; `state` is that of its session, such as idle in transaction.

    keeps_rows  what it may still look at cannot be cleaned up
    """

    process: int
    user: str
    program: str
    state: str
    seconds: float
    keeps_rows: bool


class Leftover(NamedTuple):
    """What is kept although nobody may be there any more: a prepared transaction, or an unused slot."""

    kind: str
    name: str
    seconds: float | None


class TableCondition(NamedTuple):
    """`vacuumed_seconds` is how long ago that was; None: never, or since its figures were reset."""

    name: str
    live: int
    dead: int
    bytes: int
    vacuumed_seconds: float | None
    never_vacuumed: bool


class PostgresCondition:
    def __init__(self, database: PostgresSession) -> None:
        self._database = database

    async def settings(self) -> Mapping[str, str]:
        return {row[0]: row[1] for row in await self._database.fetch(_SQL["settings"], {})}

    async def server(self) -> Server:
        [row] = await self._database.fetch(_SQL["server"], {})
        return Server._make(row)

    async def clock(self) -> float:
        [row] = await self._database.fetch(_SQL["clock"], {})
        return float(row[0])

    async def transactions(self, seconds: float) -> list[Transaction]:
        rows = await self._database.fetch(_SQL["transactions"], {"seconds": seconds, "most": MAX_COUNT})
        return [Transaction._make(row) for row in rows]

    async def leftovers(self, seconds: float) -> list[Leftover]:
        rows = await self._database.fetch(_SQL["leftovers"], {"seconds": seconds, "most": MAX_COUNT})
        return [Leftover._make(row) for row in rows]

    async def tables(self) -> list[TableCondition]:
        rows = await self._database.fetch(_SQL["tables"], {"schema": self._database.schema})
        return [TableCondition._make(row) for row in rows]
