"""The console of a worker: one short line per event, for a person at a terminal."""

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
"""Lines per second for one kind of event; further events are only counted."""
NAME_WIDTH = 16

Line = tuple[str, str]
"""A symbol, and the text after it."""


class ConsoleListener:
    def __init__(self, write: Callable[[str, str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        """`write` receives the symbol and the whole line; it may add color."""
        self._write = write
        self._clock = clock
        self._throttle = Throttle(clock)

    def wants(self, kind: type[Event]) -> bool:
        return kind in _LINES

    def __call__(self, event: Event) -> None:
        line_of = _LINES.get(type(event))
        if line_of is None:
            return
        suppressed = self._throttle.pass_(type(event), MAX_COUNT)
        if suppressed is None:
            return
        symbol, text = line_of(event)
        more = f"  ({suppressed:,} more before this)" if suppressed else ""
        time = datetime.fromtimestamp(self._clock.now()).strftime("%H:%M:%S")  # noqa: DTZ006 - local time
        self._write(symbol, f"{time}  {symbol} {DEFAULT_REDACTOR.text(text)}{more}")


def _name(ref: StepRef) -> str:
    name = ref.step if ref.step == ref.workflow else f"{ref.workflow} › {ref.step}"
    return f"{name:{NAME_WIDTH}}"


def _succeeded(event: events.StepSucceeded) -> Line:
    return "✓", f"{_name(event.ref)}  {duration(event.seconds)}"


def _recovered(event: events.StepRecovered) -> Line:
    return "✓", f"{_name(event.ref)}  {duration(event.seconds)}, after {plural(event.failures, 'failure')}"


def _retried(event: events.RetryScheduled) -> Line:
    return "↻", f"{_name(event.ref)}  {_error(event.failure)}; retry in {duration(event.delay)}"


def _held(event: events.StepHeld) -> Line:
    return "‖", f"{_name(event.ref)}  on hold: {event.held_by}"


def _died(event: events.StepDied) -> Line:
    letter = "" if event.dlq_id is None else f"; dead letter {event.dlq_id}"
    where = f" at {event.where}" if event.where else ""
    return "✗", f"{_name(event.ref)}  {_error(event.failure)}{where}{letter}"


def _released(event: events.HeldReleased) -> Line:
    return "→", f"{plural(event.runs, 'run')} released by {event.held_by}"


def _breaker(event: events.BreakerChanged) -> Line:
    return "!", f"breaker {event.breaker} is {event.after}: {event.reason}"


def _unknown(event: events.TaskUnknown) -> Line:
    return (
        "?",
        f"{_name(event.ref)}  waiting for another worker: task {event.ref.task!r} is not registered here",
    )


def _lost(event: events.LeaseLost) -> Line:
    return "!", f"{_name(event.ref)}  lost its lease; another worker has taken over"


def _store_failed(event: events.StoreFailed) -> Line:
    return "!", f"database error: {event.error}; retry in {duration(event.wait)}"


def _store_recovered(event: events.StoreRecovered) -> Line:
    return "→", f"the database is available again after {duration(event.seconds)}"


def _stream_failed(event: events.StreamFailed) -> Line:
    return "!", f"stream {event.stream}: {event.error}; retry in {duration(event.wait)}"


def _stream_recovered(event: events.StreamRecovered) -> Line:
    return "→", f"stream {event.stream} is read again after {duration(event.seconds)}"


def _stream_gap(event: events.StreamGapFound) -> Line:
    return (
        "✗",
        f"stream {event.stream}: Redis removed unread entries after {event.after}, before {event.before}",
    )


def _stopping(event: events.WorkerStopping) -> Line:
    rest = f"; finishing {plural(event.in_flight, 'step')} first" if event.in_flight else ""
    return "→", f"stopping ({event.cause}){rest}"


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
        events.StreamFailed: _stream_failed,
        events.StreamRecovered: _stream_recovered,
        events.StreamGapFound: _stream_gap,
        events.WorkerStopping: _stopping,
    }
)
