"""The strategies that apply now: which failures of an organization and a queue become dead letters.

A strategy that an operator has stored overrides the setting `dlq_strategy`, and one of a queue overrides that
of its organization. `dlq_enabled = false` overrides all of them in its process.
"""

from __future__ import annotations

from collections.abc import Mapping

from redrive.clock import Clock
from redrive.model.strategy import StrategyRow
from redrive.policy.triage import Strategy
from redrive.settings import Settings
from redrive.store.store import Store

ALL_QUEUES = ""
MAX_AGE_SECONDS = 1.0
"""How old strategies may be that a process already knows."""


class CurrentStrategies:
    """The stored strategies as this process last read them, and its settings."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._enabled = settings.dlq_enabled
        self._setting = Strategy(settings.dlq_strategy)
        self._stored: Mapping[tuple[str, str], Strategy] = {}
        self._read_at: float | None = None

    async def refresh(self, *, max_age: float = 0.0) -> None:
        """Read the stored strategies, unless they are at most `max_age` seconds old."""
        now = self._clock.monotonic()
        if self._enabled and (self._read_at is None or now - self._read_at >= max_age):
            self._stored = by_place(await self._store.strategies.all())
            self._read_at = now

    def of(self, org: str, queue: str) -> Strategy:
        return self.among(self._stored, org, queue)

    def among(self, stored: Mapping[tuple[str, str], Strategy], org: str, queue: str) -> Strategy:
        """Return the strategy of a queue, or of all queues, if these are stored."""
        if not self._enabled:
            return Strategy.DISABLED
        everywhere = stored.get((org, ALL_QUEUES), self._setting)
        return stored.get((org, queue), everywhere)


def by_place(rows: list[StrategyRow]) -> dict[tuple[str, str], Strategy]:
    """Return strategies by org and queue. Leave out those that only a newer version knows."""
    known = Strategy._value2member_map_
    return {(row.org, row.queue): Strategy(row.strategy) for row in rows if row.strategy in known}
