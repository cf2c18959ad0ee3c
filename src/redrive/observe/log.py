"""The log of the engine: one line for each unusual event; successful work is not logged.

Events that every run emits are logged at DEBUG only. A failing dependency or database can cause thousands of
events per second; the log contains a few lines per second for each cause, with the number of suppressed
lines. The history of each run contains all events.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.log_line import write_log_line
from redrive.model import event as events
from redrive.model.breaker import BreakerState
from redrive.model.decision import Explanation, Reason
from redrive.model.event import Event, fields_of
from redrive.model.step import StepState
from redrive.observe.throttle import Throttle
from redrive.words.decision import explain

LOGGER = logging.getLogger("redrive.engine")

MAX_FAILURES = 20
"""The maximum number of lines per second about one kind of failure of one task."""

LEVELS: Mapping[type, int] = MappingProxyType(
    {
        events.RunQueued: logging.DEBUG,
        events.StepStarted: logging.DEBUG,
        events.StepSucceeded: logging.DEBUG,
        events.RunFinished: logging.DEBUG,
        events.RetryScheduled: logging.INFO,
        events.StepRecovered: logging.INFO,
        events.StepReleased: logging.INFO,
        events.StepHeld: logging.INFO,
        events.HeldReleased: logging.INFO,
        events.QueuePaused: logging.INFO,
        events.QueueResumed: logging.INFO,
        events.WorkerStarted: logging.INFO,
        events.WorkerStopping: logging.INFO,
        events.WorkerStopped: logging.INFO,
        events.StoreRecovered: logging.INFO,
        events.StreamRecovered: logging.INFO,
        events.DeadLetterChanged: logging.INFO,
        events.ReplayRequested: logging.DEBUG,
        events.ReplayEnded: logging.DEBUG,
        events.OperationChanged: logging.INFO,
        events.GroupChanged: logging.INFO,
        events.ProcessorChanged: logging.INFO,
        events.LeaseLost: logging.WARNING,
        events.TaskUnknown: logging.WARNING,
        events.BreakerChanged: logging.WARNING,
        events.StoreFailed: logging.WARNING,
        events.StreamFailed: logging.WARNING,
        events.StreamGapFound: logging.ERROR,
        events.ThreadAbandoned: logging.WARNING,
        events.TaskAbandoned: logging.WARNING,
        events.AlertRaised: logging.WARNING,
        events.TaskStoredSeparately: logging.WARNING,
        events.StepDied: logging.ERROR,
    }
)

_STATUS: Mapping[type, StepState] = MappingProxyType(
    {
        events.RunQueued: StepState.PENDING,
        events.StepStarted: StepState.RUNNING,
        events.StepSucceeded: StepState.SUCCESS,
        events.StepRecovered: StepState.SUCCESS,
        events.RetryScheduled: StepState.RETRYING,
        events.StepReleased: StepState.PENDING,
        events.StepHeld: StepState.PENDING,
        events.TaskUnknown: StepState.PENDING,
    }
)

_FAILURES = (events.RetryScheduled, events.StepDied)

_NAMES = MappingProxyType({"org": "org_id", "state": "status"})
_NAMES_OF_BREAKERS = MappingProxyType({"before": "breaker_state_before", "after": "breaker_state"})


class LogListener:
    """Writes the events of the engine to the logger `redrive.engine`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._throttle = Throttle(clock)

    def wants(self, kind: type[Event]) -> bool:
        """Return whether events of this type are logged."""
        return LOGGER.isEnabledFor(LEVELS.get(kind, logging.INFO))

    def __call__(self, event: Event) -> None:
        level = _level(event)
        if not LOGGER.isEnabledFor(level):
            return
        cause = _cause(event)
        suppressed = 0 if cause is None else self._throttle.pass_(cause, _max_lines(event))
        if suppressed is not None:
            more = {"suppressed": suppressed} if suppressed else {}
            fields = _fields(event) | more
            write_log_line(LOGGER, level, _ordered(fields), _redundant(fields))


def _max_lines(event: Event) -> int:
    return MAX_FAILURES if isinstance(event, _FAILURES) else 1


def _level(event: Event) -> int:
    if isinstance(event, events.StepReleased) and event.reason == Reason.LEASE_LOST:
        return logging.WARNING
    if isinstance(event, events.BreakerChanged) and event.after != BreakerState.OPEN:
        return logging.INFO
    return LEVELS.get(type(event), logging.INFO)


def _cause(event: Event) -> tuple[str, ...] | None:
    """Return the cause by which events of this kind are throttled; None: not throttled."""
    if isinstance(event, _FAILURES):
        return type(event).__name__, event.ref.task, event.failure.error_type
    if isinstance(event, events.StepHeld):
        return "held", event.held_by
    if isinstance(event, events.TaskUnknown):
        return "unknown", event.ref.task
    if isinstance(event, events.TaskStoredSeparately):
        return "separately", event.org, event.queue
    if isinstance(event, events.DeadLetterChanged):
        return "changed", event.org, event.after, event.by
    if isinstance(event, events.StepReleased):
        return event.reason, event.ref.task
    if isinstance(event, events.StoreFailed):
        return "failed", event.doing
    if isinstance(event, events.StreamFailed):
        return "stream", event.org, event.stream, event.code
    return None


def _fields(event: Event) -> dict[str, Any]:
    """Return the fields of the event under the names that all logs use, with a status."""
    names = _NAMES_OF_BREAKERS if isinstance(event, events.BreakerChanged) else _NAMES
    fields = {names.get(name, name): value for name, value in fields_of(event).items()}
    explanation = getattr(event, "explanation", None)
    if isinstance(explanation, Explanation):
        fields["explanation"] = explain(explanation)
        if explanation.max_attempts:
            fields["max_attempts"] = explanation.max_attempts
    status = _STATUS.get(type(event))
    return fields if status is None else fields | {"status": str(status)}


_FIRST = (
    "event",
    "task",
    "workflow",
    "step",
    "attempt",
    "max_attempts",
    "error",
    "delay_ms",
    "where",
    "dlq_id",
)
_LAST = ("explanation", "run_id", "correlation_id")
_IMPLIED_BY_EXPLANATION = frozenset(
    {
        "category",
        "counted",
        "error_class",
        "error_code",
        "reason",
        "retryable",
        "rule",
        "status",
        "step_index",
    }
)


def _ordered(fields: dict[str, Any]) -> dict[str, Any]:
    """Sort the fields, most important first."""
    middle = [name for name in fields if name not in _FIRST and name not in _LAST]
    return {name: fields[name] for name in (*_FIRST, *middle, *_LAST) if name in fields}


def _redundant(fields: dict[str, Any]) -> set[str]:
    """Return fields that the line omits: default values, and fields that another field implies."""
    same = {name for name in ("workflow", "step") if fields.get(name) == fields.get("task")}
    same |= {name for name in ("org_id", "queue") if fields.get(name) == "default"}
    if fields.get("correlation_id") == fields.get("run_id"):
        same.add("correlation_id")
    return same | _IMPLIED_BY_EXPLANATION if "explanation" in fields else same
