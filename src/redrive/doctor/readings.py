"""Read the values behind the metrics: queues, breakers, workers and dead letters of all organizations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from redrive.engine.breakers import Breakers
from redrive.engine.queues import Workers, WorkerView
from redrive.engine.shared_breakers import HELD_BY_BREAKER
from redrive.model.breaker import BreakerState
from redrive.store.inspection import Inspection, Letters
from redrive.store.run_listing import Depth
from redrive.store.store import Store


class Readings(NamedTuple):
    """Counts stop at 10,000.

    held      runs on hold, by the name of the breaker
    by_state  dead letters, by state
    """

    queues: frozenset[str]
    depths: Sequence[Depth]
    breakers: Mapping[str, BreakerState]
    held: Mapping[str, int]
    workers: Sequence[WorkerView]
    by_state: Mapping[str, int]
    letters: Letters


async def take_readings(
    store: Store, fleet: Workers, breakers: Breakers, known_queues: Collection[str]
) -> Readings:
    inspection = Inspection(store.database)
    workers = await fleet.list()
    depths = await inspection.depths()
    served = {name for worker in workers for name in worker.queues}
    stored = {queue.name for queue in await inspection.queues()}
    holders = await store.limits.holders(HELD_BY_BREAKER)
    return Readings(
        queues=frozenset({*known_queues, *served, *stored, *(depth.queue for depth in depths)}),
        depths=depths,
        breakers={breaker.name: breaker.state for breaker in await breakers.list()},
        held={
            holder.removeprefix(HELD_BY_BREAKER): await store.limits.count_held(holder) for holder in holders
        },
        workers=workers,
        by_state=await store.dead_letters.by_state(),
        letters=await inspection.letters(),
    )
