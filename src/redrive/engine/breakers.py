"""Operator access to breakers: their states, the work they hold, and manual overrides.

All organizations share the breakers. Only the home organization sees who forced a breaker and why; every
organization sees how much of its own work is on hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.clock import Clock
from redrive.duration import Seconds
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.queues import require_home
from redrive.engine.registry import Registry
from redrive.engine.shared_breakers import HELD_BY_BREAKER, SharedBreaker, SharedBreakers
from redrive.errors import NotFoundError
from redrive.model.audit import Action, NewEntry
from redrive.model.breaker import BreakerState, Force
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.model.query import Count
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require_seconds
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import JsonValue
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.run_listing import Held
from redrive.store.store import Store


class ForceView(NamedTuple):
    """A manual override: the breaker keeps this state until an instant, or until it is released."""

    state: BreakerState
    until: Instant | None
    reason: str | None
    by: str | None


class BreakerView(NamedTuple):
    """A breaker as one caller sees it.

    The breaker evaluates `calls`, `failures` and `slow_calls`. From `open_until` on, it lets probes through.
    `waiting` counts the runs of the caller's org that it holds; if it is `capped`, there may be more.
    `idle`: half-open, but nothing waits; the next run that needs it tries the dependency.
    """

    name: str
    state: BreakerState
    calls: int
    failures: int
    slow_calls: int
    opened_at: Instant | None
    open_until: Instant | None
    probes_in_progress: int
    probe_successes: int
    force: ForceView | None
    waiting: Count
    policy: BreakerPolicy

    @property
    def idle(self) -> bool:
        half_open = self.state is BreakerState.HALF_OPEN and self.force is None
        return half_open and not self.probes_in_progress and not self.waiting.number


class Breakers:
    """The breakers as one caller sees them. `store` is the store of the caller's organization."""

    def __init__(
        self,
        store: Store,
        breakers: SharedBreakers,
        registry: Registry,
        clock: Clock,
        redactor: Redactor,
        caller: Caller,
    ) -> None:
        self._store = store
        self._breakers = breakers
        self._registry = registry
        self._clock = clock
        self._redactor = redactor
        self._caller = caller

    async def list(self) -> Sequence[BreakerView]:
        """List the breakers that this program names, and all breakers with reported calls."""
        known = {breaker.row.name: breaker for breaker in await self._breakers.all()}
        held = await self._store.run_lists.held(self._caller.org)
        names = sorted({*known, *self._declared_names()})
        now = self._clock.now()
        return [self._view(name, known.get(name) or self._breakers.unused(name, now), held) for name in names]

    async def view(self, name: str) -> BreakerView:
        for breaker in await self.list():
            if breaker.name == name:
                return breaker
        raise NotFoundError(
            f"there is no breaker {name!r:.200}; a breaker exists once a task or app.breaker(...) names it"
        )

    async def force(
        self, name: str, state: BreakerState | str, *, reason: str, seconds: Seconds | None = None
    ) -> None:
        """Force a breaker open or closed, for a duration or until it is released."""
        require_home(self._caller, "breakers")
        if seconds is not None:
            seconds = require_seconds("seconds", seconds, 0.0, MAX_DELAY_SECONDS)
        target, reason = choice("state", state, BreakerState), clean_reason(reason, self._redactor)
        detail = {"reason": reason} if reason else {}
        entry = self._entry(Action.BREAKER_FORCED, name, detail | {"state": str(target), "seconds": seconds})
        await self._breakers.force(name, target, reason, self._caller.name, seconds, entry)

    async def release(self, name: str) -> None:
        """Remove a manual override, so that the breaker follows its calls again."""
        require_home(self._caller, "breakers")
        await self._breakers.release(name, self._entry(Action.BREAKER_RELEASED, name, {}))

    def _entry(self, action: Action, name: str, detail: Mapping[str, JsonValue]) -> NewEntry:
        org, actor = self._caller
        return NewEntry(org=org, actor=actor, action=action, subjects=(name,), detail=detail)

    def _declared_names(self) -> set[str]:
        workflows = self._registry.workflows.values()
        steps = {
            step.breaker for workflow in workflows for step in workflow.steps if step.breaker is not None
        }
        return steps | self._breakers.settings.keys()

    def _view(self, name: str, shared: SharedBreaker, held: Held) -> BreakerView:
        now = shared.snapshot
        return BreakerView(
            name,
            now.state,
            now.calls,
            now.failures,
            now.slow_calls,
            now.opened_at,
            now.open_until,
            now.probes_in_progress,
            now.probe_successes,
            None if now.force is None else self._force(now.force),
            held.by(HELD_BY_BREAKER + name),
            self._breakers.policy(name),
        )

    def _force(self, force: Force) -> ForceView:
        if self._caller.org != DEFAULT_ORG:
            return ForceView(force.state, force.until, None, None)
        return ForceView(force.state, force.until, force.reason, force.by)
