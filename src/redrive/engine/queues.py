"""Operator access to queues and workers: list them, pause and resume queues.

All organizations share them. The home organization, which owns the installation, sees everything; other
organizations see only their own work, and no reasons given by people of another organization.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.event_bus import EventBus
from redrive.engine.registry import Registry
from redrive.engine.task import checked_name
from redrive.errors import AccessDeniedError, NotFoundError, NotStorableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.event import QueuePaused, QueueResumed
from redrive.model.field import Instant
from redrive.model.query import MAX_COUNTED, Count
from redrive.model.run import Place
from redrive.model.worker import BlockingStep, worker_condition
from redrive.policy.codec import decode
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason
from redrive.store.limits import QueueRow, WorkerRow
from redrive.store.run_listing import Depth
from redrive.store.store import Store

_READY = (Place.READY, Place.ALONE)


class Depths(NamedTuple):
    """The number of runs in a queue by position, each counted up to 10,000.

    oldest_ready_seconds  how long ago the oldest ready run was submitted
    """

    ready: Count
    waiting: Count
    held: Count
    executing: Count
    oldest_ready_seconds: float | None


class QueueView(NamedTuple):
    """`own` counts the runs of the caller's org, `overall` those of all orgs.

    Only the home org sees `overall`, and who paused the queue and why.
    """

    name: str
    paused: bool
    paused_at: Instant | None
    paused_by: str | None
    reason: str | None
    own: Depths
    overall: Depths | None


class WorkerView(NamedTuple):
    """A worker as one caller sees it. Only the home org sees `host` and `process`.

    `seconds_silent` is the time since the last heartbeat. Workers send one every 10 s by default; a worker
    that is silent for several times as long is dead, whatever its state says. `seconds_blocked` is the time
    since the event loop of a live worker last answered, and only the home org sees the `blocking_step`.
    """

    id: str
    state: str
    started_at: Instant
    seen_at: Instant
    seconds_silent: float
    code_version: str
    queues: tuple[str, ...]
    concurrency: int
    in_flight: int
    host: str | None
    process: int | None
    seconds_blocked: float | None = None
    blocking_step: BlockingStep | None = None

    @property
    def condition(self) -> str:
        return worker_condition(self.state, self.seconds_silent, self.seconds_blocked)


class Queues:
    """The queues as one caller sees them.

    `store` is the store of the caller's organization, `everything` the store of the installation.
    """

    def __init__(
        self,
        store: Store,
        everything: Store,
        registry: Registry,
        event_bus: EventBus,
        redactor: Redactor,
        caller: Caller,
    ) -> None:
        self._store = store
        self._everything = everything
        self._registry = registry
        self._event_bus = event_bus
        self._redactor = redactor
        self._caller = caller

    async def list(self) -> Sequence[QueueView]:
        """List all queues that this program or a worker names, that were ever paused, or that hold work."""
        at_home = self._caller.org == DEFAULT_ORG
        own = await self._store.run_lists.depths(self._caller.org)
        overall = await self._everything.run_lists.overall_depths() if at_home else []
        rows = {row.name: row for row in await self._everything.limits.queues()}
        served = {name for row in await self._everything.limits.workers() for name in _names(row.queues)}
        names = {*self._registry.queues, *served, *rows, *(depth.queue for depth in (*own, *overall))}
        return [self._view(rows.get(name), name, own, overall) for name in sorted(names)]

    async def view(self, name: str) -> QueueView:
        for queue in await self.list():
            if queue.name == name:
                return queue
        raise NotFoundError(f"there is no queue {name!r:.200}")

    async def pause(self, name: str, *, reason: str = "") -> None:
        """Pause a queue: workers claim nothing more from it. Running work finishes."""
        await self._check_known(name)
        by, reason = self._caller.name, clean_reason(reason, self._redactor)
        async with self._everything.database.transaction() as session:
            await self._everything.limits.pause(name, by, reason, session=session)
            await self._everything.audit.append(session, [self._entry(Action.QUEUE_PAUSED, name, reason)])
        self._event_bus.emit(QueuePaused(name, by, reason))

    async def resume(self, name: str) -> None:
        await self._check_known(name)
        async with self._everything.database.transaction() as session:
            await self._everything.limits.resume(name, session=session)
            await self._everything.audit.append(session, [self._entry(Action.QUEUE_RESUMED, name)])
        await self._everything.hint([name])
        self._event_bus.emit(QueueResumed(name, self._caller.name))

    async def _check_known(self, name: str) -> None:
        """Reject a mistyped queue, which neither this program nor another one on the same tables has."""
        require_home(self._caller, "queues")
        if checked_name("queue", name) in self._registry.queues:
            return
        if all(queue.name != name for queue in await self.list()):
            self._registry.queue(name)

    def _entry(self, action: Action, queue: str, reason: str = "") -> NewEntry:
        detail = {"reason": reason} if reason else {}
        org, actor = self._caller
        return NewEntry(org=org, actor=actor, action=action, subjects=(queue,), detail=detail)

    def _view(
        self, row: QueueRow | None, name: str, own: Sequence[Depth], overall: Sequence[Depth]
    ) -> QueueView:
        at_home = self._caller.org == DEFAULT_ORG
        details = row if at_home else None
        return QueueView(
            name,
            paused=row is not None and row.paused_at is not None,
            paused_at=None if row is None else row.paused_at,
            paused_by=None if details is None else details.paused_by,
            reason=None if details is None else details.reason,
            own=_depths(own, name),
            overall=_depths(overall, name) if at_home else None,
        )


class Workers:
    """The workers of the installation, as one caller sees them."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    async def list(self) -> Sequence[WorkerView]:
        return [self._view(row) for row in await self._store.limits.workers()]

    def _view(self, row: WorkerRow) -> WorkerView:
        at_home = self._caller.org == DEFAULT_ORG
        return WorkerView(
            row.id,
            row.state,
            row.started_at,
            row.seen_at,
            row.seconds_silent,
            row.code_version,
            _names(row.queues),
            row.concurrency,
            row.in_flight,
            row.host if at_home else None,
            row.process if at_home else None,
            row.seconds_blocked,
            row.blocking_step if at_home else None,
        )


def require_home(caller: Caller, what: str) -> None:
    """Raise AccessDeniedError unless the caller's org is the home org, which owns queues and breakers."""
    if caller.org != DEFAULT_ORG:
        raise AccessDeniedError(
            f"all organizations share the {what}; only the organization {DEFAULT_ORG!r} can change them"
        )


def _depths(depths: Sequence[Depth], queue: str) -> Depths:
    ready = [depth for depth in depths if depth.queue == queue and depth.place in _READY]
    ages = [max(0.0, depth.now - depth.oldest) for depth in ready if depth.oldest is not None]
    return Depths(
        _count(depths, queue, *_READY),
        _count(depths, queue, Place.WAITING),
        _count(depths, queue, Place.HELD),
        _count(depths, queue, Place.LEASED),
        max(ages, default=None),
    )


def _count(depths: Sequence[Depth], queue: str, *places: Place) -> Count:
    counted = [depth for depth in depths if depth.place in places]
    number = sum(depth.number for depth in counted if depth.queue == queue)
    # Some places are counted over all queues: once that limit is reached, any queue may have more.
    everywhere = sum(depth.number for depth in counted if depth.shared)
    return Count(min(number, MAX_COUNTED), number > MAX_COUNTED or everywhere > MAX_COUNTED)


def _names(text: str) -> tuple[str, ...]:
    try:
        value = decode(text)
    except NotStorableError:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()
