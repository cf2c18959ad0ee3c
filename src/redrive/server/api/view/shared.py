"""Queues, breakers, workers and settings, as answers have them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from redrive.engine.breaker_queries import BreakerView, ForceView
from redrive.engine.queue_queries import Depths, QueueView, WorkerView
from redrive.server.answer import when


def queue_view(queue: QueueView) -> dict[str, Any]:
    overall = None if queue.overall is None else _depths_view(queue.overall)
    times = {"paused_at": when(queue.paused_at)}
    return {**queue._asdict(), **times, "own": _depths_view(queue.own), "overall": overall}


def worker_view(worker: WorkerView) -> dict[str, Any]:
    times = {"started_at": when(worker.started_at), "seen_at": when(worker.seen_at)}
    return {**worker._asdict(), **times}


def breaker_view(breaker: BreakerView) -> dict[str, Any]:
    return {
        **breaker._asdict(),
        "opened_at": when(breaker.opened_at),
        "open_until": when(breaker.open_until),
        "force": None if breaker.force is None else _force_view(breaker.force),
        "waiting": breaker.waiting._asdict(),
        "policy": asdict(breaker.policy),
    }


def _depths_view(depths: Depths) -> dict[str, Any]:
    fields = depths._asdict()
    for name in ("ready", "waiting", "held", "executing"):
        fields[name] = fields[name]._asdict()
    return fields


def _force_view(force: ForceView) -> dict[str, Any]:
    return {**force._asdict(), "until": when(force.until)}
