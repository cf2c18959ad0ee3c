"""The book of queues: what waits in them for one org, and who works on them.

Queues and workers are shared by all orgs. The home org, that the installation belongs to, sees all of it; the
others see their own work, and nothing that somebody may have said of another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.registry import Registry
from redrive.errors import NotFoundError, NotStorableError
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.model.query import MAX_COUNTED, Count
from redrive.model.run import Place
from redrive.policy.codec import decode
from redrive.store.limits import QueueRow, WorkerRow
from redrive.store.run_listing import Depth
from redrive.store.store import Store

_READY = (Place.READY, Place.ALONE)


class Depths(NamedTuple):
    """How much lies where, counted up to 10,000 each.

    oldest_ready_seconds  how long ago the oldest of what is ready was submitted
    """

    ready: Count
    waiting: Count
    held: Count
    executing: Count
    oldest_ready_seconds: float | None


class QueueView(NamedTuple):
    """`own` is what the caller's org has in it; `overall`, what all have. The latter, and who has paused it
    and why, only the home org is told."""

    name: str
    paused: bool
    paused_at: Instant | None
    paused_by: str | None
    reason: str | None
    own: Depths
    overall: Depths | None


class WorkerView(NamedTuple):
    """`seconds_silent`: a worker that says nothing for several times 10 s is dead, whatever its state says.
    Where it runs, only the home org is told."""

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


class QueueQueries:
    """`store` is that of the caller's org, `everything` that of the installation."""

    def __init__(self, store: Store, everything: Store, registry: Registry, caller: Caller) -> None:
        self._store = store
        self._everything = everything
        self._registry = registry
        self._caller = caller

    async def get(self, name: str) -> QueueView:
        for each in await self.list():
            if each.name == name:
                return each
        raise NotFoundError(f"there is no queue {name!r:.200}")

    async def list(self) -> Sequence[QueueView]:
        """Those that this program or a worker knows, that were ever paused, or that hold something."""
        own = await self._store.run_lists.depths(self._caller.org)
        overall = await self._everything.run_lists.overall_depths() if self._at_home else []
        rows = {row.name: row for row in await self._everything.limits.queues()}
        served = {name for row in await self._everything.limits.workers() for name in _names(row.queues)}
        names = {*self._registry.queues, *served, *rows, *(each.queue for each in (*own, *overall))}
        return [self._view(rows.get(name), name, own, overall) for name in sorted(names)]

    async def workers(self) -> Sequence[WorkerView]:
        return [self._worker(row) for row in await self._everything.limits.workers()]

    @property
    def _at_home(self) -> bool:
        return self._caller.org == DEFAULT_ORG

    def _view(
        self, row: QueueRow | None, name: str, own: Sequence[Depth], overall: Sequence[Depth]
    ) -> QueueView:
        told = row if self._at_home else None
        return QueueView(
            name,
            paused=row is not None and row.paused_at is not None,
            paused_at=None if row is None else row.paused_at,
            paused_by=None if told is None else told.paused_by,
            reason=None if told is None else told.reason,
            own=_summed(own, name),
            overall=_summed(overall, name) if self._at_home else None,
        )

    def _worker(self, row: WorkerRow) -> WorkerView:
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
            row.host if self._at_home else None,
            row.process if self._at_home else None,
        )


def _summed(depths: Sequence[Depth], queue: str) -> Depths:
    ready = [each for each in depths if each.queue == queue and each.place in _READY]
    ages = [max(0.0, each.now - each.oldest) for each in ready if each.oldest is not None]
    return Depths(
        _counted(depths, queue, *_READY),
        _counted(depths, queue, Place.WAITING),
        _counted(depths, queue, Place.HELD),
        _counted(depths, queue, Place.LEASED),
        max(ages, default=None),
    )


def _counted(depths: Sequence[Depth], queue: str, *places: Place) -> Count:
    counted = [each for each in depths if each.place in places]
    number = sum(each.number for each in counted if each.queue == queue)
    # Some are counted over all queues: when the limit was reached, any queue may have more of it.
    everywhere = sum(each.number for each in counted if each.shared)
    return Count(min(number, MAX_COUNTED), number > MAX_COUNTED or everywhere > MAX_COUNTED)


def _names(text: str) -> tuple[str, ...]:
    try:
        value = decode(text)
    except NotStorableError:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()
