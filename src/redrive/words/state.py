"""States: the word that people read, and its tone, which the pages and the terminal show as a color.

The API, the command line and the pages all take their words from this table; the glossary lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from redrive.model.dead_letter import DeadLetterLine, DeadLetterState


class Tone(StrEnum):
    """What a state asks of its reader.

    BAD   needs a person            WARN  worth a look    BUSY  in progress
    WAIT  continues automatically   GOOD  healthy         CALM  settled or irrelevant
    """

    BAD = "bad"
    WARN = "warn"
    BUSY = "busy"
    WAIT = "wait"
    GOOD = "good"
    CALM = "calm"


class StateLabel(NamedTuple):
    tone: Tone
    word: str


LABELS: Mapping[str, StateLabel] = MappingProxyType(
    {
        # Runs and steps
        "READY": StateLabel(Tone.WAIT, "Queued"),
        "QUEUED": StateLabel(Tone.WAIT, "Queued"),
        "PENDING": StateLabel(Tone.WAIT, "Pending"),
        "RUNNING": StateLabel(Tone.BUSY, "Running"),
        "RETRYING": StateLabel(Tone.WAIT, "Retrying"),
        "SUCCESS": StateLabel(Tone.GOOD, "Succeeded"),
        "FAILED": StateLabel(Tone.BAD, "Failed"),
        "PARTIAL": StateLabel(Tone.WARN, "Partial"),
        "NEEDS_ATTENTION": StateLabel(Tone.BAD, "Needs attention"),
        "DLQ_PENDING": StateLabel(Tone.WARN, "Dead letter"),
        "DLQ": StateLabel(Tone.BAD, "Dead letter"),
        "DEAD": StateLabel(Tone.BAD, "Dead letter"),
        "BLOCKED": StateLabel(Tone.BAD, "Blocked"),
        "CANCELLED": StateLabel(Tone.CALM, "Cancelled"),
        "HELD": StateLabel(Tone.WARN, "On hold"),
        "WAITING": StateLabel(Tone.WAIT, "Waiting"),
        "UNKNOWN_TASK": StateLabel(Tone.BAD, "Unknown task"),
        # Projections of events
        "REMOVED": StateLabel(Tone.CALM, "Removed"),
        # Attempts
        "SUCCEEDED": StateLabel(Tone.GOOD, "Succeeded"),
        "RELEASED": StateLabel(Tone.CALM, "Released"),
        "LOST": StateLabel(Tone.WARN, "Worker lost"),
        # Dead letters and their groups
        "OPEN": StateLabel(Tone.BAD, "Open"),
        "REPLAYING": StateLabel(Tone.BUSY, "Replaying"),
        "SCHEDULED": StateLabel(Tone.WAIT, "Redrive due"),
        "EXHAUSTED": StateLabel(Tone.WARN, "Exhausted"),
        "RESOLVED": StateLabel(Tone.GOOD, "Resolved"),
        "IGNORED": StateLabel(Tone.CALM, "Ignored"),
        "ARCHIVED": StateLabel(Tone.CALM, "Archived"),
        "ACKNOWLEDGED": StateLabel(Tone.WAIT, "Acknowledged"),
        "REGRESSED": StateLabel(Tone.BAD, "Regressed"),
        "SETTLED_OPEN": StateLabel(Tone.CALM, "Open, none left"),
        "SETTLED_REGRESSED": StateLabel(Tone.CALM, "Regressed, none left"),
        # Bulk replays and their items
        "PLANNED": StateLabel(Tone.WAIT, "Planned"),
        "PAUSED": StateLabel(Tone.WARN, "Paused"),
        "STOPPED": StateLabel(Tone.BAD, "Stopped automatically"),
        "DONE": StateLabel(Tone.GOOD, "Done"),
        "REFUSED": StateLabel(Tone.WARN, "Refused"),
        "SKIPPED": StateLabel(Tone.CALM, "Skipped"),
        # Breakers
        "BREAKER_OPEN": StateLabel(Tone.BAD, "Open"),
        "BREAKER_HALF_OPEN": StateLabel(Tone.WARN, "Probing"),
        "BREAKER_IDLE": StateLabel(Tone.CALM, "Tried with the next run"),
        "BREAKER_CLOSED": StateLabel(Tone.GOOD, "Closed"),
        # Streams
        "STREAM_READING": StateLabel(Tone.GOOD, "Reading"),
        "STREAM_BEHIND": StateLabel(Tone.WARN, "Behind"),
        "STREAM_HELD": StateLabel(Tone.WAIT, "Waiting"),
        "STREAM_PAUSED": StateLabel(Tone.WARN, "Paused"),
        "STREAM_FAILING": StateLabel(Tone.BAD, "Can't read"),
        "STREAM_SILENT": StateLabel(Tone.BAD, "Silent"),
        "STREAM_UNREAD": StateLabel(Tone.CALM, "No consumer yet"),
        # Workers
        "WORKER_RUNNING": StateLabel(Tone.GOOD, "Working"),
        "WORKER_STOPPING": StateLabel(Tone.BUSY, "Stopping"),
        "WORKER_STOPPED": StateLabel(Tone.CALM, "Stopped"),
        "WORKER_SILENT": StateLabel(Tone.BAD, "Silent"),
        "WORKER_BLOCKED": StateLabel(Tone.BAD, "Blocked"),
        # Whether a replay is likely to succeed
        "LIKELY": StateLabel(Tone.GOOD, "Likely to succeed"),
        "UNLIKELY": StateLabel(Tone.BAD, "Unlikely to succeed"),
        "UNKNOWN": StateLabel(Tone.WAIT, "Unclear"),
    }
)


def state_label(state: str, kind: str = "") -> StateLabel:
    """Return the word and the tone of a state. An unknown state keeps its name and is calm.

    `kind` is "breaker", "stream" or "worker" for their states, because other states have the same names.
    """
    name = f"{kind}_{state}".upper().lstrip("_")
    return LABELS.get(name) or StateLabel(Tone.CALM, state.replace("_", " ").capitalize())


def letter_state(letter: DeadLetterLine) -> str:
    """Return SCHEDULED for an open dead letter that Redrive will replay, otherwise its state."""
    is_scheduled = letter.next_redrive_at is not None or letter.waits
    return "SCHEDULED" if letter.state == DeadLetterState.OPEN and is_scheduled else letter.state


def status(state: str, kind: str = "") -> str:
    """Return the word of a state within a sentence: "on hold"."""
    return state_label(state, kind).word.lower()
