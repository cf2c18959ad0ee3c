"""Gauges for Prometheus: how things stand in the database that all processes share (W15, P9).

Whoever is scraped reads them at that moment: what a process has seen itself is not all that happens.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

Values = Mapping[tuple[str, ...], float]
"""By the values of the labels."""


class Gauges:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.queue_depth = self._gauge("redrive_queue_depth", "Runs in a queue", "queue", "place")
        self.queue_oldest = self._gauge(
            "redrive_queue_oldest_seconds", "Age of the oldest run that is ready, 0 if none is", "queue"
        )
        self.breaker_open = self._gauge("redrive_breaker_open", "1 while a breaker is open", "breaker")
        self.breaker_held = self._gauge("redrive_breaker_held", "Runs that wait for a breaker", "breaker")
        self.workers = self._gauge("redrive_workers", "Workers that have not stopped", "state")
        self.dead_letters = self._gauge("redrive_dead_letters", "Dead letters", "state")
        self.needing_you = self._gauge(
            "redrive_dead_letters_needing_you", "Dead letters that stay until somebody sees to them"
        )
        self.oldest_needing_you = self._gauge(
            "redrive_dead_letters_oldest_seconds", "Age of the oldest one that needs you, 0 if none does"
        )

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self._registry)

    @staticmethod
    def show(gauge: Gauge, values: Values) -> None:
        """These, and nothing from before."""
        gauge.clear()
        for labels, value in values.items():
            gauge.labels(*labels).set(value)
