"""Variants of statements that do the same, for fewer or more tables at once."""

from __future__ import annotations

_DOES = {
    "advance_step": "advance",
    "claim_within": "claim",
    "complete_step": "complete",
    "enqueue_new": "enqueue",
}


def does(name: str) -> str:
    """Return the name under which faults and checks know the action of a statement."""
    return _DOES.get(name, name)
