"""A token bucket: so many at once, refilled steadily. Time is an argument."""

from __future__ import annotations

from typing import NamedTuple


class Bucket(NamedTuple):
    """What was left in it at a moment."""

    tokens: float
    at: float


def take(bucket: Bucket | None, now: float, rate: float, burst: float) -> tuple[Bucket, float]:
    """Take one. The bucket afterwards, and for how long to wait: 0 when there was one.

    None is a full bucket. Whoever has to wait has taken nothing.
    """
    filled = burst if bucket is None else min(burst, bucket.tokens + max(0.0, now - bucket.at) * rate)
    if filled >= 1.0:
        return Bucket(filled - 1.0, now), 0.0
    return Bucket(filled, now), (1.0 - filled) / rate
