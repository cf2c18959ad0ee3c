"""Strategies that operators have stored: which failures of an organization or a queue become dead letters."""

from __future__ import annotations

from redrive.model.strategy import StrategyRow
from redrive.store.database import Session
from redrive.store.statement import statements

_SQL = statements("strategies", StrategyRow)


class Strategies:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def all(self) -> list[StrategyRow]:
        """List the strategies of all organizations."""
        return [StrategyRow._make(row) for row in await self._session.fetch(_SQL["all"], {})]

    async def of(self, org: str) -> list[StrategyRow]:
        """List the strategies of an organization by queue."""
        return [StrategyRow._make(row) for row in await self._session.fetch(_SQL["of"], {"org": org})]

    async def lock(self, session: Session, org: str) -> dict[str, StrategyRow]:
        """Lock the strategies of an organization until the transaction ends; return them by queue."""
        rows = await session.fetch(_SQL["lock"], {"org": org})
        return {row.queue: row for row in map(StrategyRow._make, rows)}

    async def put(self, session: Session, org: str, queue: str, strategy: str, by: str, reason: str) -> None:
        parameters = {"org": org, "queue": queue, "strategy": strategy, "by": by, "reason": reason}
        await session.fetch(_SQL["put"], parameters)

    async def remove(self, session: Session, org: str, queue: str) -> None:
        await session.fetch(_SQL["remove"], {"org": org, "queue": queue})
