"""The states of a circuit breaker, and the values exchanged with it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.field import Instant
from redrive.model.transition import TransitionTable, moves


class BreakerState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CallOutcome(StrEnum):
    """What a call shows about the dependency. `NOTHING`: neither that it works nor that it fails."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOTHING = "nothing"


class Permit(NamedTuple):
    """Permission to make one call. `probe` is 0 for an ordinary call.

    A result counts only while the breaker is still in the generation that issued the permit.
    """

    generation: int
    probe: int = 0


class Refusal(NamedTuple):
    """The breaker refuses the call. Ask again in `retry_after` seconds.

    `probing`: the breaker is half-open and all its probe slots are in use.
    """

    retry_after: float
    probing: bool = False


class Force(NamedTuple):
    """A manual override: the breaker stays OPEN or CLOSED until an instant, or until it is released."""

    state: BreakerState
    reason: str
    by: str
    until: Instant | None = None

    def is_over(self, now: float) -> bool:
        return self.until is not None and self.until <= now


class BreakerSnapshot(NamedTuple):
    """The state of a breaker for display."""

    state: BreakerState
    generation: int
    calls: int
    failures: int
    slow_calls: int
    opened_at: Instant | None
    open_until: Instant | None
    probes_in_progress: int
    probe_successes: int
    force: Force | None = None

    def is_idle(self, waiting: int) -> bool:
        """Return whether it is half-open and nothing waits, so that the next run tries the dependency."""
        half_open = self.state is BreakerState.HALF_OPEN and self.force is None
        return half_open and not self.probes_in_progress and not waiting


BREAKER_TRANSITIONS = TransitionTable(
    "breaker",
    BreakerState.CLOSED,
    [
        *moves("too many calls failed or were slow", [BreakerState.CLOSED], [BreakerState.OPEN]),
        *moves("the cool-down is over", [BreakerState.OPEN], [BreakerState.HALF_OPEN]),
        *moves("a probe failed or never reported", [BreakerState.HALF_OPEN], [BreakerState.OPEN]),
        *moves("enough probes succeeded", [BreakerState.HALF_OPEN], [BreakerState.CLOSED]),
        *moves("a person opened it", [BreakerState.CLOSED, BreakerState.HALF_OPEN], [BreakerState.OPEN]),
        *moves("a person closed it", [BreakerState.OPEN, BreakerState.HALF_OPEN], [BreakerState.CLOSED]),
        *moves("a person released it", [BreakerState.OPEN], [BreakerState.HALF_OPEN]),
    ],
)
