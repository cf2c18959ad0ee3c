"""Metrics for Prometheus: counters of this process's events, and gauges read from the shared database.

A process sees only its own events, so gauges such as the state of a breaker are read from the database on
each scrape. The names of workflows, steps, queues and breakers come from your code and are labels; the names
of organizations, runs and people are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from redrive.model import event as events
from redrive.model.dead_letter import DeadLetterState
from redrive.model.event import Event, StepRef

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_STEP = ("workflow", "step")


Values = Mapping[tuple[str, ...], float]
"""Values by label."""


class Gauges:
    """The state of the shared database."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.queue_depth = self._gauge("redrive_queue_depth", "Runs in a queue", "queue", "place")
        self.queue_oldest = self._gauge(
            "redrive_queue_oldest_seconds", "Age of the oldest ready run; 0 if no run is ready", "queue"
        )
        self.breaker_open = self._gauge("redrive_breaker_open", "1 while a breaker is open", "breaker")
        self.breaker_held = self._gauge(
            "redrive_breaker_held", "Runs on hold because of a breaker", "breaker"
        )
        self.workers = self._gauge("redrive_workers", "Workers that have not stopped", "state")
        self.dead_letters = self._gauge("redrive_dead_letters", "Dead letters", "state")
        self.needing_you = self._gauge("redrive_dead_letters_needing_you", "Dead letters that need a person")
        self.oldest_needing_you = self._gauge(
            "redrive_dead_letters_oldest_seconds",
            "Age of the oldest dead letter that needs a person; 0 if there is no such dead letter",
        )

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self._registry)

    @staticmethod
    def show(gauge: Gauge, values: Values) -> None:
        """Replace all values of a gauge."""
        gauge.clear()
        for labels, value in values.items():
            gauge.labels(*labels).set(value)


class Metrics:
    """Counts events after `app.listen(Metrics())`. `text()` returns the response to a scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = self._counter("workflow_step_attempts", "Step attempts started", _STEP)
        self._retries = self._counter("workflow_step_retries", "Retries scheduled", _STEP)
        self._moves = self._counter("workflow_dlq_moves", "Steps that became dead letters", _STEP)
        self._replays = self._counter("workflow_dlq_replays", "Replays requested", ("mode",))
        self._replayed = self._counter("redrive_replays_ended", "Replays finished", ("state",))
        self._exhausted = self._counter(
            "redrive_dead_letters_exhausted", "Dead letters that used up their automatic redrives", ()
        )
        self._queued = self._counter("redrive_runs_queued", "Runs started", ("workflow",))
        self._finished = self._counter("redrive_runs_finished", "Runs finished", ("workflow", "state"))
        self._failed = self._counter(
            "redrive_steps_failed", "Steps failed permanently, by public error code", ("code",)
        )
        self._lost = self._counter("redrive_leases_lost", "Results discarded because the lease was lost", ())
        self._store = self._counter("redrive_store_failures", "Database errors", ())
        self._seconds = Histogram(
            "redrive_step_seconds", "Duration of attempts", ("task",), registry=self.registry, buckets=SECONDS
        )
        self._changes = self._counter(
            "redrive_breaker_changes", "Breaker state changes made by this process", ("breaker", "state")
        )

    @cached_property
    def gauges(self) -> Gauges:
        """Create the gauges on first use: without values they would report zeros."""
        return Gauges(self.registry)

    def __call__(self, event: Event) -> None:
        count = _COUNTING.get(type(event))
        if count is not None:
            count(self, event)

    def wants(self, kind: type[Event]) -> bool:
        return kind in _COUNTING

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def _started(self, event: events.StepStarted) -> None:
        self._attempts.labels(*_step(event.ref)).inc()

    def _scheduled(self, event: events.RetryScheduled) -> None:
        self._retries.labels(*_step(event.ref)).inc()
        self._seconds.labels(event.ref.task).observe(event.seconds)

    def _succeeded(self, event: events.StepSucceeded | events.StepRecovered) -> None:
        self._seconds.labels(event.ref.task).observe(event.seconds)

    def _died(self, event: events.StepDied) -> None:
        self._failed.labels(event.failure.public_code).inc()
        self._seconds.labels(event.ref.task).observe(event.seconds)
        if event.dlq_id is not None:
            self._moves.labels(*_step(event.ref)).inc()

    def _requested(self, event: events.ReplayRequested) -> None:
        self._replays.labels(event.mode).inc()

    def _ended(self, event: events.ReplayEnded) -> None:
        self._replayed.labels(event.state).inc()

    def _letter_changed(self, event: events.DeadLetterChanged) -> None:
        if event.after == DeadLetterState.EXHAUSTED:
            self._exhausted.inc()

    def _run_queued(self, event: events.RunQueued) -> None:
        self._queued.labels(event.workflow).inc()

    def _run_finished(self, event: events.RunFinished) -> None:
        self._finished.labels(event.workflow, event.state).inc()

    def _lease_lost(self, event: events.LeaseLost) -> None:
        self._lost.inc()

    def store_failed(self, event: events.StoreFailed | None = None) -> None:
        """Count a database error, also for callers without an event."""
        self._store.inc()

    def _breaker_changed(self, event: events.BreakerChanged) -> None:
        if event.before != event.after:
            self._changes.labels(event.breaker, event.after).inc()


def _step(ref: StepRef) -> tuple[str, str]:
    return ref.workflow, ref.step


_COUNTING: Mapping[type, Callable[[Metrics, Any], None]] = {
    events.StepStarted: Metrics._started,
    events.RetryScheduled: Metrics._scheduled,
    events.StepSucceeded: Metrics._succeeded,
    events.StepRecovered: Metrics._succeeded,
    events.StepDied: Metrics._died,
    events.ReplayRequested: Metrics._requested,
    events.ReplayEnded: Metrics._ended,
    events.DeadLetterChanged: Metrics._letter_changed,
    events.RunQueued: Metrics._run_queued,
    events.RunFinished: Metrics._run_finished,
    events.LeaseLost: Metrics._lease_lost,
    events.StoreFailed: Metrics.store_failed,
    events.BreakerChanged: Metrics._breaker_changed,
}
