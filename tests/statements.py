"""Statements that do the same in other words, for fewer or for more tables at once."""

from __future__ import annotations

_DOES = {
    "advance_step": "advance",
    "claim_within": "claim",
    "complete_step": "complete",
    "enqueue_new": "enqueue",
}


def does(name: str) -> str:
    """What a statement does, under the name by which faults and witnesses know it."""
    return _DOES.get(name, name)
