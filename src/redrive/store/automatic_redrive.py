"""Automatic redrives: due dead letters, archiving of exhausted ones, statistics, and processors."""

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
    """A dead letter whose automatic redrive is due."""

    letter_id: str
    org: str
    run_id: RunId
    step_index: int


class Archived(NamedTuple):
    org: str
    letter_id: str


SILENT_INTERVALS = 3.0
"""Intervals without a heartbeat after which a processor counts as dead, whatever its stored state."""


class ProcessorRow(NamedTuple):
    """`queue` is empty for a processor that serves all queues."""

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
    """Counts of the dead letters of one org. `categories` and `policies` count live dead letters only."""

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
        """Return the dead letters to redrive now, most urgent first.

        Leave out dead letters that depend on an open breaker or on another dead letter, and those with a
        custom policy that is not `known`.
        """
        held = {"open": encode(sorted(open_breakers)), "known": encode(sorted(known))}
        rows = await self._session.fetch(_SQL["due"], {"queue": queue, "most": most, **held})
        return [Due._make(row) for row in rows]

    async def next_due(self) -> float | None:
        """Return the seconds until the next dead letter is due; those already due do not count."""
        [row] = await self._session.fetch(_SQL["next_due"], {})
        return None if row[0] is None else float(row[0])

    async def lock_due(self, session: Session, several: Sequence[Due]) -> list[Due]:
        """Lock dead letters and their runs until the transaction ends; return those still due."""
        locked = {row[0] for row in await session.fetch_many(_SQL["lock_due"], several)}
        return [letter for letter in several if letter.letter_id in locked]

    async def archive(
        self, session: Session, age: float, most: int, reason: str, queue: str | None
    ) -> list[Archived]:
        """Archive dead letters that have been exhausted for more than `age` seconds."""
        parameters = {"age": age, "most": most, "reason": reason, "queue": queue, "by": SELF}
        return [Archived._make(row) for row in await session.fetch(_SQL["archive"], parameters)]

    async def census(self, *, org: str | None = None, queue: str | None = None) -> dict[str, Census]:
        """Count the dead letters of each org by reading counters, at a cost independent of their number."""
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
