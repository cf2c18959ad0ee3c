"""A retry budget: retries of a dependency cost tokens, successes give some back.

While all is well the bucket is full and nobody notices it. When a dependency fails for everybody, it runs dry
and retries stop, so that they cannot multiply the load on something that is already down.
"""

from __future__ import annotations

from dataclasses import dataclass

from redrive.policy.bounds import require


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """Starts full. By default 100 retries in a row; in the long run, one retry for every five successes."""

    capacity: float = 500.0
    retry_cost: float = 5.0
    success_gain: float = 1.0

    def __post_init__(self) -> None:
        require("capacity", self.capacity, 0.0, 1e9)
        require("retry_cost", self.retry_cost, 0.0, 1e9)
        require("success_gain", self.success_gain, 0.0, 1e9)


class Budget:
    """The bucket of one dependency. Not thread-safe: whoever shares it locks it."""

    __slots__ = ("policy", "tokens")

    def __init__(self, policy: BudgetPolicy | None = None) -> None:
        self.policy = policy or BudgetPolicy()
        self.tokens = self.policy.capacity

    def take(self) -> bool:
        """May one retry be made? If so, it is paid for."""
        if self.tokens < self.policy.retry_cost:
            return False
        self.tokens -= self.policy.retry_cost
        return True

    def give_back(self) -> None:
        """A call succeeded."""
        self.tokens = min(self.policy.capacity, self.tokens + self.policy.success_gain)
