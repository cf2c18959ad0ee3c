"""Change at run time which failures become dead letters, for an organization or one of its queues.

All processes follow a change within seconds. The audit records it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.strategies import ALL_QUEUES, CurrentStrategies, by_place
from redrive.engine.task import checked_name
from redrive.errors import TransitionError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.model.strategy import StrategyRow
from redrive.policy.bounds import choice
from redrive.policy.redact import Redactor
from redrive.policy.triage import Strategy
from redrive.policy.user_text import clean_reason
from redrive.store.store import Store

MAX_STRATEGIES = 100


class StrategyView(NamedTuple):
    """The strategy of a queue, or of all queues of the org that have no strategy of their own.

    queue       the queue; None: all others
    strategy    automatic, selective, manual or disabled
    changed_by  the caller who stored it; None: it comes from the settings
    """

    queue: str | None
    strategy: Strategy
    changed_by: str | None = None
    changed_at: Instant | None = None
    reason: str | None = None


class LetterStrategies:
    """Which failures of the caller's organization become dead letters."""

    def __init__(
        self, store: Store, strategies: CurrentStrategies, redactor: Redactor, caller: Caller
    ) -> None:
        self._store = store
        self._strategies = strategies
        self._redactor = redactor
        self._caller = caller

    async def list(self) -> Sequence[StrategyView]:
        """List the strategy of the organization, then those of queues that have their own."""
        rows = {row.queue: row for row in await self._store.strategies.of(self._caller.org)}
        return [self._view(queue, rows) for queue in sorted({ALL_QUEUES, *rows})]

    async def view(self, queue: str | None = None) -> StrategyView:
        """Return the strategy that applies to a queue, or to all queues without their own."""
        wanted = _place(queue)
        rows = {row.queue: row for row in await self._store.strategies.of(self._caller.org)}
        return self._view(wanted, rows)

    async def change(
        self, strategy: Strategy | str | None, *, queue: str | None = None, reason: str = ""
    ) -> StrategyView:
        """Store a strategy for a queue, or without `queue` for all queues that have no strategy of their own.

        None removes the stored strategy: the queue follows the organization again, and the organization the
        setting `dlq_strategy`.
        """
        after = None if strategy is None else choice("strategy", strategy, Strategy)
        place, reason = _place(queue), clean_reason(reason, self._redactor)
        org, by = self._caller
        stored = self._store.strategies
        async with self._store.database.transaction() as session:
            rows = await stored.lock(session, org)
            before = self._view(place, rows).strategy
            if after is not None:
                await stored.put(session, org, place, str(after), by, reason)
            elif place in rows:
                await stored.remove(session, org, place)
            else:
                return self._view(place, rows)
            rows = await stored.lock(session, org)
            changed = self._view(place, rows)
            if len(rows) > MAX_STRATEGIES:
                raise TransitionError(
                    f"{MAX_STRATEGIES} queues already have a strategy of their own, the maximum; remove one "
                    f"first"
                )
            detail = {"before": str(before), "after": str(changed.strategy)}
            detail |= {"reason": reason} if reason else {}
            await self._store.audit.append(session, [self._entry(place, detail)])
        await self._strategies.refresh()
        return changed

    def _view(self, place: str, rows: dict[str, StrategyRow]) -> StrategyView:
        strategy = self._strategies.among(by_place([*rows.values()]), self._caller.org, place)
        row, queue = rows.get(place), place or None
        if row is None:
            return StrategyView(queue, strategy)
        return StrategyView(queue, strategy, row.changed_by, row.changed_at, row.reason or None)

    def _entry(self, place: str, detail: dict[str, str]) -> NewEntry:
        org, actor = self._caller
        action = Action.QUEUE_STRATEGY_CHANGED if place else Action.ORGANIZATION_STRATEGY_CHANGED
        return NewEntry(org=org, actor=actor, action=action, subjects=(place or org,), detail=detail)


def _place(queue: str | None) -> str:
    return ALL_QUEUES if queue is None else checked_name("queue", queue)
