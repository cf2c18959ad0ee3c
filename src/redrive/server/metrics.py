"""Prometheus metrics: the counters of this process, and gauges read from the database."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from redrive.app import Redrive
from redrive.doctor.readings import Readings, take_readings
from redrive.errors import StatementTimeoutError, StoreError
from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import DeadLetterState
from redrive.model.query import MAX_COUNTED
from redrive.model.run import Place
from redrive.parts import parts_of

if TYPE_CHECKING:
    from redrive.observe.metrics import Gauges, Metrics

_READY = (Place.READY, Place.ALONE)
_PLACES = (*_READY, Place.WAITING, Place.HELD, Place.LEASED)
_ALWAYS_SHOWN, _STOPPED = ("running", "silent", "blocked"), "stopped"


def new_metrics(app: Redrive) -> Metrics | None:
    """Return the metrics, or None if prometheus_client is not installed."""
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
    """Middleware that counts requests that failed because the database was unavailable."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except StatementTimeoutError:  # the database works, but the query was too slow
            raise
        except StoreError:
            self._metrics.store_failed()
            raise


def count_store_failures(api: FastAPI) -> None:
    """Add the middleware inside all others, which would turn the error into a response."""
    metrics: Metrics | None = api.state.site.metrics
    if metrics is not None:
        api.user_middleware.append(Middleware(StoreFailures, metrics=metrics))


async def scrape(app: Redrive, metrics: Metrics) -> bytes:
    parts = parts_of(app)
    readings = await take_readings(parts.store, app.workers(), app.breakers(), parts.registry.queues)
    _show(readings, metrics.gauges)  # no await from here on, so that concurrent scrapes do not mix
    return metrics.text()


def _show(readings: Readings, gauges: Gauges) -> None:
    breakers = {*readings.breakers, *readings.held}
    opened = {name for name, state in readings.breakers.items() if state is BreakerState.OPEN}
    gauges.show(gauges.queue_depth, _depths(readings))
    gauges.show(gauges.queue_oldest, _ages(readings))
    gauges.show(gauges.breaker_open, {(name,): name in opened for name in breakers})
    gauges.show(gauges.breaker_held, {(name,): readings.held.get(name, 0) for name in breakers})
    gauges.show(gauges.workers, _workers(readings))
    gauges.show(gauges.dead_letters, {(state,): readings.by_state.get(state, 0) for state in DeadLetterState})
    live = readings.letters.live
    gauges.needing_you.set(live.open + live.exhausted)
    gauges.oldest_needing_you.set(max(0.0, readings.letters.oldest_seconds or 0.0))


def _depths(readings: Readings) -> dict[tuple[str, ...], float]:
    found = Counter({(queue, str(place)): 0 for queue in readings.queues for place in _PLACES})
    for depth in readings.depths:
        found[depth.queue, depth.place] += depth.number
    return {labels: min(number, MAX_COUNTED) for labels, number in found.items()}


def _ages(readings: Readings) -> dict[tuple[str, ...], float]:
    ages = dict.fromkeys(readings.queues, 0.0)
    for depth in readings.depths:
        if depth.place in _READY and depth.oldest is not None:
            ages[depth.queue] = max(ages[depth.queue], depth.now - depth.oldest)
    return {(queue,): age for queue, age in ages.items()}


def _workers(readings: Readings) -> dict[tuple[str, ...], float]:
    """Count the workers that have not stopped, by condition."""
    states = Counter(worker.condition for worker in readings.workers if worker.state != _STOPPED)
    return {(state,): states[state] for state in {*_ALWAYS_SHOWN, *states}}
