"""The console of a worker: a short line for every event, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.model import event as events
from redrive.model.event import Event, StepRef
from redrive.model.failure import Failure
from redrive.observe.throttle import Throttle
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.words.number import plural
from redrive.words.time import duration

MAX_COUNT = 20
"""Lines per second of one kind; the others are counted."""
NAME = 16

Line = tuple[str, str]
"""A sign, and the text after it."""


class ConsoleListener:
    def __init__(self, write: Callable[[str, str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        """`write` gets the sign and the line, and may colour it."""
        self._write = write
        self._clock = clock
        self._throttle = Throttle(clock)

    def wants(self, kind: type[Event]) -> bool:
        return kind in _LINES

    def __call__(self, event: Event) -> None:
        told = _LINES.get(type(event))
        if told is None:
            return
        left_out = self._throttle.pass_(type(event), MAX_COUNT)
        if left_out is None:
            return
        sign, text = told(event)
        more = f"  (and {left_out:,} more before)" if left_out else ""
        time = datetime.fromtimestamp(self._clock.now()).strftime("%H:%M:%S")  # noqa: DTZ006 - of the reader
        self._write(sign, f"{time}  {sign} {DEFAULT_REDACTOR.text(text)}{more}")


def _name(ref: StepRef) -> str:
    name = ref.step if ref.step == ref.workflow else f"{ref.workflow} › {ref.step}"
    return f"{name:{NAME}}"


def _succeeded(event: events.StepSucceeded) -> Line:
    return "✓", f"{_name(event.ref)}  {duration(event.seconds)}"


def _recovered(event: events.StepRecovered) -> Line:
    return "✓", f"{_name(event.ref)}  {duration(event.seconds)}, after {plural(event.failures, 'failure')}"


def _retried(event: events.RetryScheduled) -> Line:
    return "↻", f"{_name(event.ref)}  {_error(event.failure)}; again in {duration(event.delay)}"


def _held(event: events.StepHeld) -> Line:
    return "‖", f"{_name(event.ref)}  held by {event.held_by}"


def _died(event: events.StepDied) -> Line:
    letter = "" if event.dlq_id is None else f"; dead letter {event.dlq_id}"
    where = f" at {event.where}" if event.where else ""
    return "✗", f"{_name(event.ref)}  {_error(event.failure)}{where}{letter}"


def _released(event: events.HeldReleased) -> Line:
    return "→", f"{event.runs:,} released that {event.held_by} held"


def _breaker(event: events.BreakerChanged) -> Line:
    return "!", f"the breaker {event.breaker} is {event.after}: {event.reason}"


def _unknown(event: events.TaskUnknown) -> Line:
    return "?", f"{_name(event.ref)}  waits: this worker knows no task {event.ref.task!r}"


def _lost(event: events.LeaseLost) -> Line:
    return "!", f"{_name(event.ref)}  took longer than its lease; another worker has it"


def _store_failed(event: events.StoreFailed) -> Line:
    return "!", f"the database cannot be used: {event.error}; again in {duration(event.wait)}"


def _store_recovered(event: events.StoreRecovered) -> Line:
    return "→", f"the database is back after {duration(event.seconds)}"


def _stopping(event: events.WorkerStopping) -> Line:
    rest = f"; {event.in_flight} under way are finished first" if event.in_flight else ""
    return "→", f"stopping{rest}"


def _error(failure: Failure) -> str:
    return f"{failure.error_type.rpartition('.')[2]}: {' '.join(failure.message.split())[:200]}"


_LINES: Mapping[type, Callable[[Any], Line]] = MappingProxyType(
    {
        events.StepSucceeded: _succeeded,
        events.StepRecovered: _recovered,
        events.RetryScheduled: _retried,
        events.StepHeld: _held,
        events.StepDied: _died,
        events.HeldReleased: _released,
        events.BreakerChanged: _breaker,
        events.TaskUnknown: _unknown,
        events.LeaseLost: _lost,
        events.StoreFailed: _store_failed,
        events.StoreRecovered: _store_recovered,
        events.WorkerStopping: _stopping,
    }
)
