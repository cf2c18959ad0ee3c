"""Every safety guard of the engine and the store, by name."""

from __future__ import annotations

from tests.guards import deciding, fencing, storing
from tests.guards.guard import Guard

GUARDS: dict[str, Guard] = {
    guard.name: guard for guard in (*fencing.GUARDS, *storing.GUARDS, *deciding.GUARDS)
}

SIMULATED = (
    "reschedule.token",
    "renew.token",
    "reclaim.expiry",
    "reclaim.new token",
    "claim.epoch rises",
    "only the winner writes beside",
    "promote.due",
    "enqueue.unique key",
    "attempt budget",
    "unsafe work",
    "stable key",
    "breaker at the gate",
    "probe slots",
    "full limit",
    "cancelled before the gate",
)
"""Those whose absence the simulation finds as well: `python -m tests.guards --simulate 100`."""
