"""The order of runs with an order key: what a run waits for, and what waits for it."""

from __future__ import annotations

from redrive.model.id import short_id
from redrive.model.query import Count
from redrive.words.number import noun


def describe_order(waits_for: str | None, before: Count, behind: Count) -> str:
    """Say what a run waits for and what waits for it; "" if it is alone."""
    parts = []
    if waits_for is not None:
        parts.append(f"waits for run {short_id(waits_for)}, {before} before it")
    if behind.number:
        parts.append(f"{behind} {noun(behind.number, 'run waits', 'runs wait')} behind it")
    return "; ".join(parts)
