"""Controls: what a person sets by hand, queues and breakers. Each change is in the audit (I14)."""

from __future__ import annotations

from redrive.engine.breakers import Breakers
from redrive.engine.event_bus import EventBus
from redrive.engine.queue_queries import QueueQueries
from redrive.engine.registry import Registry
from redrive.engine.task import checked_name
from redrive.model.audit import Action, NewEntry
from redrive.model.breaker import BreakerState
from redrive.model.caller import Caller
from redrive.model.event import QueuePaused, QueueResumed
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.store import Store


class Controls:
    """On behalf of one caller, in whose audit it is; queues and breakers are shared by all orgs."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        breakers: Breakers,
        event_bus: EventBus,
        redactor: Redactor,
        caller: Caller,
    ) -> None:
        self._store = store
        self._registry = registry
        self._breakers = breakers
        self._event_bus = event_bus
        self._redactor = redactor
        self._caller = caller

    async def pause(self, queue: str, reason: str = "") -> None:
        """Claim nothing more from a queue; what is in flight is finished."""
        name, by = await self._queue(queue), self._caller.name
        said = clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            await self._store.limits.pause(name, by, said, session=session)
            await self._store.audit.append(session, [self._entry(Action.QUEUE_PAUSED, name, said)])
        self._event_bus.emit(QueuePaused(name, by, said))

    async def resume(self, queue: str) -> None:
        name = await self._queue(queue)
        async with self._store.database.transaction() as session:
            await self._store.limits.resume(name, session=session)
            await self._store.audit.append(session, [self._entry(Action.QUEUE_RESUMED, name)])
        await self._store.database.hint([name])
        self._event_bus.emit(QueueResumed(name, self._caller.name))

    async def _queue(self, name: str) -> str:
        """One that this program names, or that another one has on the same tables; a mistyped one is none."""
        if checked_name("queue", name) not in self._registry.queues:
            book = QueueQueries(self._store, self._store, self._registry, self._caller)
            if any(each.name == name for each in await book.list()):
                return name
        return self._registry.queue(name)

    async def force_breaker(
        self, name: str, state: BreakerState | str, reason: str, seconds: float | None = None
    ) -> None:
        """Open or close a breaker by hand, for so many seconds or until it is left to itself again."""
        if seconds is not None:
            require("seconds", seconds, 0.0, MAX_DELAY_SECONDS)
        wanted, said = choice("state", state, BreakerState), clean_reason(reason, self._redactor)
        entry = self._entry(Action.BREAKER_FORCED, name, said)
        entry = entry._replace(detail={**entry.detail, "state": str(wanted), "seconds": seconds})
        await self._breakers.force(name, wanted, said, self._caller.name, seconds, entry)

    async def release_breaker(self, name: str) -> None:
        """Leave a forced breaker to itself again."""
        await self._breakers.leave_alone(name, self._entry(Action.BREAKER_RELEASED, name))

    def _entry(self, action: Action, name: str, reason: str = "") -> NewEntry:
        detail = {"reason": reason} if reason else {}
        return NewEntry(
            org=self._caller.org, actor=self._caller.name, action=action, subjects=(name,), detail=detail
        )
