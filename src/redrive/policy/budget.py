"""Token buckets: the retry budget of a dependency, and request rate limits. Time is an argument.

Retries cost tokens, and successes return some. While a dependency works, its budget stays full. When it fails
for every caller, the budget runs out and retries stop, so that they do not multiply the load on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from redrive.policy.bounds import require


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """A budget starts full. The default allows 100 retries in a row, then one per five successes."""

    capacity: float = 500.0
    retry_cost: float = 5.0
    success_gain: float = 1.0

    def __post_init__(self) -> None:
        require("capacity", self.capacity, 0.0, 1e9)
        require("retry_cost", self.retry_cost, 0.0, 1e9)
        require("success_gain", self.success_gain, 0.0, 1e9)


class Budget:
    """The retry budget of one dependency. Not thread-safe: callers that share it need a lock."""

    __slots__ = ("policy", "tokens")

    def __init__(self, policy: BudgetPolicy | None = None) -> None:
        self.policy = policy or BudgetPolicy()
        self.tokens = self.policy.capacity

    def take(self) -> bool:
        """Take the tokens for one retry; False if there are not enough."""
        if self.tokens < self.policy.retry_cost:
            return False
        self.tokens -= self.policy.retry_cost
        return True

    def give_back(self) -> None:
        """Return the tokens for one successful call."""
        self.tokens = min(self.policy.capacity, self.tokens + self.policy.success_gain)


class Bucket(NamedTuple):
    """The tokens left at a given time."""

    tokens: float
    at: float


def take(bucket: Bucket | None, now: float, rate: float, burst: float) -> tuple[Bucket, float]:
    """Take one token; return the new bucket, and the seconds to wait if it was empty (0 otherwise).

    None is a full bucket. If the caller has to wait, no token was taken.
    """
    filled = burst if bucket is None else min(burst, bucket.tokens + max(0.0, now - bucket.at) * rate)
    if filled >= 1.0:
        return Bucket(filled - 1.0, now), 0.0
    return Bucket(filled, now), (1.0 - filled) / rate
