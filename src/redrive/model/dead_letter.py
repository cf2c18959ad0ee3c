"""A dead letter: failed work kept for triage."""

from __future__ import annotations

from enum import StrEnum

from redrive.model.transition import TransitionTable, moves


class DeadLetterState(StrEnum):
    OPEN = "OPEN"
    REPLAYING = "REPLAYING"
    EXHAUSTED = "EXHAUSTED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"
    ARCHIVED = "ARCHIVED"


_O, _RE, _EX = DeadLetterState.OPEN, DeadLetterState.REPLAYING, DeadLetterState.EXHAUSTED
_PUT_AWAY = (DeadLetterState.RESOLVED, DeadLetterState.IGNORED, DeadLetterState.ARCHIVED)

DEAD_LETTER_TRANSITIONS = TransitionTable(
    "dead letter",
    _O,
    [
        *moves("replay started", [_O, _EX], [_RE]),
        *moves("replay succeeded", [_RE], [DeadLetterState.RESOLVED]),
        *moves("replay failed", [_RE], [_O]),
        *moves("automatic redrives used up", [_RE], [_EX]),
        *moves("resolved by a person", [_O, _EX], [DeadLetterState.RESOLVED]),
        *moves("ignored by a person", [_O, _EX], [DeadLetterState.IGNORED]),
        *moves("archived", [_O, _EX], [DeadLetterState.ARCHIVED]),
        *moves("reopened", _PUT_AWAY, [_O]),
    ],
)
