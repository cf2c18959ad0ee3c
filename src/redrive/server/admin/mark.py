"""Marks of states: a colour, a shape and a word, so that none of the three has to be seen alone."""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """`tone` is a colour of the style sheet, `shape` a figure of parts/ui.html."""

    tone: str
    shape: str
    word: str


_BAD, _WARN, _BUSY, _WAIT, _GOOD, _CALM = (
    ("bad", "octagon"),
    ("warn", "triangle"),
    ("busy", "half"),
    ("wait", "ring"),
    ("good", "check"),
    ("calm", "dash"),
)

_MARKS = {
    # Runs and steps
    "PENDING": Mark(*_WAIT, "Pending"),
    "RUNNING": Mark(*_BUSY, "Running"),
    "RETRYING": Mark(*_WAIT, "Waits for retry"),
    "SUCCESS": Mark(*_GOOD, "Succeeded"),
    "FAILED": Mark(*_BAD, "Failed"),
    "PARTIAL": Mark(*_WARN, "Partial"),
    "DLQ_PENDING": Mark(*_BAD, "Dead letter"),
    "DLQ": Mark(*_BAD, "Dead letter"),
    "BLOCKED": Mark(*_BAD, "Blocked"),
    "CANCELLED": Mark(*_CALM, "Cancelled"),
    "HELD": Mark(*_WARN, "Held"),
    "WAITING": Mark(*_WAIT, "Waiting"),
    "READY": Mark(*_WAIT, "Ready"),
    # Attempts
    "SUCCEEDED": Mark(*_GOOD, "Succeeded"),
    "RELEASED": Mark(*_CALM, "Given back"),
    "LOST": Mark(*_WARN, "Lost its worker"),
    # Dead letters and their groups
    "OPEN": Mark(*_BAD, "Open"),
    "REPLAYING": Mark(*_BUSY, "Replaying"),
    "SCHEDULED": Mark(*_WAIT, "To be redriven"),
    "EXHAUSTED": Mark(*_WARN, "Exhausted"),
    "RESOLVED": Mark(*_GOOD, "Resolved"),
    "IGNORED": Mark(*_CALM, "Ignored"),
    "ARCHIVED": Mark(*_CALM, "Archived"),
    "ACKNOWLEDGED": Mark(*_WAIT, "Acknowledged"),
    "REGRESSED": Mark(*_BAD, "Regressed"),
    "SETTLED_OPEN": Mark(*_CALM, "Open, nothing left"),
    "SETTLED_REGRESSED": Mark(*_CALM, "Regressed, nothing left"),
    # Bulk replays and their items
    "PLANNED": Mark(*_WAIT, "Planned"),
    "PAUSED": Mark(*_WARN, "Paused"),
    "STOPPED": Mark(*_BAD, "Stopped itself"),
    "DONE": Mark(*_GOOD, "Done"),
    "REFUSED": Mark(*_WARN, "Refused"),
    "SKIPPED": Mark(*_CALM, "Left out"),
    # Breakers
    "BREAKER_OPEN": Mark(*_BAD, "Open"),
    "BREAKER_HALF_OPEN": Mark(*_WARN, "Probing"),
    "BREAKER_CLOSED": Mark(*_GOOD, "Closed"),
    # Workers
    "WORKER_RUNNING": Mark(*_GOOD, "Working"),
    "WORKER_STOPPING": Mark(*_BUSY, "Stopping"),
    "WORKER_STOPPED": Mark(*_CALM, "Stopped"),
    "WORKER_SILENT": Mark(*_BAD, "Silent"),
    # Whether a replay will help
    "LIKELY": Mark(*_GOOD, "Likely to work"),
    "UNLIKELY": Mark(*_BAD, "Unlikely to work"),
    "UNKNOWN": Mark(*_WAIT, "Not known"),
}


def mark(state: str, kind: str = "") -> Mark:
    """`kind` tells words apart that mean different things, such as an open breaker."""
    name = f"{kind}_{state}".upper().lstrip("_")
    return _MARKS.get(name) or Mark("calm", "dash", state.replace("_", " ").capitalize())
