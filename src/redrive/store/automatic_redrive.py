"""Redriving: the dead letters that are due, those that are exhausted for long, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from redrive.model.caller import SELF
from redrive.model.dead_letter import LIVE, DeadLetterState
from redrive.model.field import RunId
from redrive.model.statistics import LifetimeStats
from redrive.policy.codec import encode
from redrive.store.database import Session
from redrive.store.statement import statements


class Due(NamedTuple):
    """A dead letter whose time has come."""

    letter_id: str
    org: str
    run_id: RunId
    step_index: int


class Archived(NamedTuple):
    org: str
    letter_id: str


SILENT_INTERVALS = 3.0
"""A processor that has sent no heartbeat for so many of its intervals is dead, whatever its state says."""


class ProcessorRow(NamedTuple):
    """`queue` is empty for one that serves all."""

    id: str
    queue: str
    state: str
    interval_seconds: float
    started_at: float
    seen_at: float
    redriven: int
    now: float

    @property
    def running(self) -> bool:
        is_silent = self.now - self.seen_at > SILENT_INTERVALS * self.interval_seconds
        return self.state == "running" and not is_silent


@dataclass(slots=True)
class Census:
    """Counts of the dead letters of one organization. Categories and policies are those of live ones."""

    states: Counter[DeadLetterState] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    lifetime: LifetimeStats = field(default_factory=LifetimeStats)
    live: int = 0

    def add(self, state: str, category: str, policy: str, number: int) -> None:
        self.states[DeadLetterState(state)] += number
        if state in LIVE:
            self.live += number
            self.categories[category] += number
            self.policies[policy] += number


_SQL = statements("automatic_redrive", Due, ProcessorRow)


class Redrives:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def due(
        self, most: int, *, queue: str | None, open_breakers: Collection[str], known: Collection[str]
    ) -> list[Due]:
        """What is to be redriven now, the most urgent first.

        Not what depends on an open breaker or on another letter, nor by a custom policy that is not `known`.
        """
        held = {"open": encode(sorted(open_breakers)), "known": encode(sorted(known))}
        rows = await self._session.fetch(_SQL["due"], {"queue": queue, "most": most, **held})
        return [Due._make(row) for row in rows]

    async def next_due(self) -> float | None:
        """Seconds until the next letter will be due; what is due already is not asked for."""
        [row] = await self._session.fetch(_SQL["next_due"], {})
        return None if row[0] is None else float(row[0])

    async def lock_due(self, session: Session, several: Sequence[Due]) -> list[Due]:
        """Those of them that are still due, locked with their runs until the transaction ends."""
        locked = {row[0] for row in await session.fetch_many(_SQL["lock_due"], several)}
        return [each for each in several if each.letter_id in locked]

    async def archive(
        self, session: Session, age: float, most: int, reason: str, queue: str | None
    ) -> list[Archived]:
        """Archive what has been exhausted for longer than that many seconds."""
        parameters = {"age": age, "most": most, "reason": reason, "queue": queue, "by": SELF}
        return [Archived._make(row) for row in await session.fetch(_SQL["archive"], parameters)]

    async def census(self, *, org: str | None = None, queue: str | None = None) -> dict[str, Census]:
        """By orgs; out of the counters, so it costs the same however many letters there are."""
        found: dict[str, Census] = {}
        scope = {"org": org, "queue": queue}
        for name, state, category, policy, number in await self._session.fetch(_SQL["counts"], scope):
            found.setdefault(name, Census()).add(state, category, policy, number)
        for name, figure, number in await self._session.fetch(_SQL["figures"], scope):
            census = found.setdefault(name, Census())
            census.lifetime = census.lifetime._replace(**{figure: number})
        return found

    async def heartbeat(self, processor: str, queue: str, state: str, interval: float, redriven: int) -> None:
        parameters = {
            "id": processor,
            "queue": queue,
            "state": state,
            "interval": interval,
            "redriven": redriven,
        }
        await self._session.fetch(_SQL["heartbeat"], parameters)

    async def processors(self) -> list[ProcessorRow]:
        return [ProcessorRow._make(row) for row in await self._session.fetch(_SQL["processors"], {})]

    async def forget_processors(self, age: float) -> None:
        await self._session.fetch(_SQL["forget_processors"], {"age": age})
