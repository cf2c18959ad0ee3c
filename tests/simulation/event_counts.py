"""Counts of the engine's events: retries, dead letters, holds, drains."""

from __future__ import annotations

from tests.simulation.loop import Process
from tests.simulation.stage import Stage

from redrive.model import event


class EventCounts:
    """A listener that counts events."""

    def __init__(self, stage: Stage, process: Process) -> None:
        self._stage = stage
        self._process = process

    def wants(self, kind: type) -> bool:
        return kind is not event.StepStarted and kind is not event.RunQueued

    def __call__(self, told: event.Event) -> None:
        occurrences = self._stage.occurrences
        name = event.name_of(told)
        self._stage.note(self._process, name)
        if isinstance(told, event.BreakerChanged):
            occurrences[f"breaker {told.after.lower()}"] += 1
        elif isinstance(told, event.WorkerStopped):
            occurrences["given back at a drain"] += told.requeued
        elif isinstance(told, event.StepDied):
            occurrences[f"dead: {told.explanation.reason}"] += 1
        elif isinstance(told, event.StepReleased):
            occurrences[f"released: {told.reason}"] += 1
        elif isinstance(told, event.StepHeld):
            occurrences[f"held by a {told.held_by.partition(':')[0]}"] += 1
        elif isinstance(told, event.RetryScheduled):
            occurrences[f"retry: {told.explanation.reason}"] += 1
        elif isinstance(told, event.QueuePaused):
            occurrences["queue paused"] += 1
        elif isinstance(told, event.LeaseLost):
            occurrences["result too late"] += 1
