"""What a scrape by Prometheus is answered with: the counts of this process, and how the tables stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from redrive.app import Redrive
from redrive.engine.breakers import HELD_BY_BREAKER
from redrive.engine.queue_queries import WorkerView
from redrive.errors import StatementTimeoutError, StoreError
from redrive.failures.verdicts import SILENT_SECONDS
from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import DeadLetterState
from redrive.model.run import Place
from redrive.store.inspection import Inspection, Letters
from redrive.store.listing import MAX_COUNTED
from redrive.store.run_listing import Depth

if TYPE_CHECKING:
    from redrive.observe.gauges import Gauges
    from redrive.observe.metrics import Metrics

_READY = (Place.READY, Place.ALONE)
_PLACES = (*_READY, Place.WAITING, Place.HELD, Place.LEASED)
_RUNNING, _SILENT, _STOPPED = "running", "silent", "stopped"


def counting(app: Redrive) -> Metrics | None:
    """None where prometheus_client is not installed."""
    try:
        from redrive.observe.metrics import Metrics
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        return None
    metrics = Metrics()
    app.listen(metrics)
    return metrics


class StoreFailures:
    """Counts the requests that the database could not be used for."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except StatementTimeoutError:  # it has worked, longer than it may
            raise
        except StoreError:
            self._metrics.store_failed()
            raise


def count_store_failures(api: FastAPI) -> None:
    """Within everything that would answer the error."""
    metrics: Metrics | None = api.state.site.metrics
    if metrics is not None:
        api.user_middleware.append(Middleware(StoreFailures, metrics=metrics))


class _Tables(NamedTuple):
    """How they stand. What is counted is counted up to 10,000, over all organizations."""

    queues: frozenset[str]
    depths: Sequence[Depth]
    breakers: Mapping[str, BreakerState]
    held: Mapping[str, int]
    workers: Sequence[WorkerView]
    by_state: Mapping[str, int]
    letters: Letters


async def scraped(app: Redrive, metrics: Metrics) -> bytes:
    tables = await _read(app)
    _show(tables, metrics.gauges)  # nothing is waited for from here on: scrapes at the same time do not mix
    return metrics.text()


async def _read(app: Redrive) -> _Tables:
    store, inspection = app.store, Inspection(app.database)
    workers = await (await app.queue_book()).workers()
    depths = await inspection.depths()
    served = {name for each in workers for name in each.queues}
    kept = {each.name for each in await inspection.queues()}
    holders = await store.limits.holders(HELD_BY_BREAKER)
    return _Tables(
        frozenset({*app.registry.queues, *served, *kept, *(each.queue for each in depths)}),
        depths,
        {each.name: each.state for each in await (await app.breaker_book()).list()},
        {each.removeprefix(HELD_BY_BREAKER): await store.limits.count_held(each) for each in holders},
        workers,
        await store.dead_letters.by_state(),
        await inspection.letters(),
    )


def _show(tables: _Tables, gauges: Gauges) -> None:
    breakers = {*tables.breakers, *tables.held}
    opened = {name for name, state in tables.breakers.items() if state is BreakerState.OPEN}
    gauges.show(gauges.queue_depth, _depths(tables))
    gauges.show(gauges.queue_oldest, _ages(tables))
    gauges.show(gauges.breaker_open, {(name,): name in opened for name in breakers})
    gauges.show(gauges.breaker_held, {(name,): tables.held.get(name, 0) for name in breakers})
    gauges.show(gauges.workers, _workers(tables))
    gauges.show(gauges.dead_letters, {(state,): tables.by_state.get(state, 0) for state in DeadLetterState})
    live = tables.letters.live
    gauges.needing_you.set(live.open + live.exhausted)
    gauges.oldest_needing_you.set(max(0.0, tables.letters.oldest_seconds or 0.0))


def _depths(tables: _Tables) -> dict[tuple[str, ...], float]:
    found = Counter({(queue, str(place)): 0 for queue in tables.queues for place in _PLACES})
    for each in tables.depths:
        found[each.queue, each.place] += each.number
    return {labels: min(number, MAX_COUNTED) for labels, number in found.items()}


def _ages(tables: _Tables) -> dict[tuple[str, ...], float]:
    ages = dict.fromkeys(tables.queues, 0.0)
    for each in tables.depths:
        if each.place in _READY and each.oldest is not None:
            ages[each.queue] = max(ages[each.queue], each.now - each.oldest)
    return {(queue,): age for queue, age in ages.items()}


def _workers(tables: _Tables) -> dict[tuple[str, ...], float]:
    """One that should be at work, and has said nothing for a minute, is silent, whatever it has said last."""
    states = Counter(
        _SILENT if each.seconds_silent > SILENT_SECONDS else each.state
        for each in tables.workers
        if each.state != _STOPPED
    )
    return {(state,): states[state] for state in {_RUNNING, _SILENT, *states}}
