"""The doctor's queries about a PostgreSQL server: its durability settings, and what slows it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.store.postgres_session import PostgresSession
from redrive.store.statement import statements

_SQL = statements("postgres_condition")
MAX_COUNT = 20


class Server(NamedTuple):
    """`clock` is the server's time, `hidden` the number of sessions whose details this user may not see."""

    version: str
    in_recovery: bool
    bytes: int
    connections: int
    hidden: int
    clock: float


class Transaction(NamedTuple):
    """A long transaction. `state` is the state of its session, such as "idle in transaction".

    keeps_rows  it may still read old row versions, so vacuum cannot remove them
    """

    process: int
    user: str
    program: str
    state: str
    seconds: float
    keeps_rows: bool


class Leftover(NamedTuple):
    """A prepared transaction or an unused replication slot, whose owner may be gone."""

    kind: str
    name: str
    seconds: float | None


class TableCondition(NamedTuple):
    """`vacuumed_seconds` is the time since the last vacuum; None: none since its statistics were reset."""

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
