"""Trends: numbers over time, in parts that begin with the clock, so that a part is the same whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.errors import InvalidValueError
from redrive.model.failure_group import Timeline
from redrive.store.store import Store

HOUR, HOURS = 3600, 24
MAX_SPARKLINES = 500


def beginning(now: float, width: int, parts: int) -> int:
    """Where the first of so many parts begins, of which the last is under way."""
    return (int(now // width) + 1 - parts) * width


def placed(place: int, parts: int) -> int:
    """The database's clock may be ahead of ours: what lies in the future belongs to the last part."""
    return min(place, parts - 1)


async def sparklines(store: Store, org: str, fingerprints: Sequence[str], now: float) -> dict[str, Timeline]:
    """How many dead letters each of these failures had in each hour of the last day, in one query."""
    if len(fingerprints) > MAX_SPARKLINES:
        raise InvalidValueError(
            f"ask for the sparklines of at most {MAX_SPARKLINES} failures at once, got {len(fingerprints)}"
        )
    start = beginning(now, HOUR, HOURS)
    numbers = {each: [0] * HOURS for each in fingerprints}
    for fingerprint, place, number in await store.tallies.occurred(org, fingerprints, start, HOUR):
        numbers[fingerprint][placed(place, HOURS)] += number
    return {each: Timeline(float(start), float(HOUR), tuple(own)) for each, own in numbers.items()}
