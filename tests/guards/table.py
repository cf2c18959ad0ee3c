"""Every safety guard of the engine, the store and the server, by name."""

from __future__ import annotations

from tests.guards import (
    encryption_guards,
    event_guards,
    execution_guards,
    identity_guards,
    lease_guards,
    order_guards,
    org_filters,
    owner_guards,
    replay_guards,
    run_move_guards,
    server_guards,
    store_guards,
    stream_guards,
)
from tests.guards.guard import Guard

_PARTS = (
    lease_guards,
    run_move_guards,
    order_guards,
    store_guards,
    execution_guards,
    replay_guards,
    encryption_guards,
    server_guards,
    identity_guards,
    owner_guards,
    stream_guards,
    event_guards,
    org_filters,
)
GUARDS: dict[str, Guard] = {guard.name: guard for part in _PARTS for guard in part.GUARDS}

SIMULATED = (
    "reschedule.token",
    "renew.token",
    "reclaim.expiry",
    "reclaim.new token",
    "claim.epoch rises",
    "only the winner writes other rows",
    "promote.due",
    "enqueue.unique key",
    "attempt budget",
    "unsafe work",
    "stable key",
    "breaker at the gate",
    "probe slots",
    "full limit",
    "cancelled before the gate",
    "order.a start waits for its predecessor (sqlite)",
    "order.the end of a run releases the next (sqlite)",
    "order.a dead letter blocks its order (sqlite)",
)
"""Guards whose absence the simulation finds too: `python -m tests.guards --simulate 100`."""
