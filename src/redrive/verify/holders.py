"""Runs on hold (I6): their breaker or limit must exist, and must still have a reason to hold them.

Runs that no worker knows wait for a person, so they are violations.

Whenever a run finishes, its limit has a free slot until a worker polls. So the check only suspects a limit
with free slots, and looks again later: by then, a worker must have released the next run.
"""

from __future__ import annotations

from redrive.clock import Clock
from redrive.errors import NotStorableError
from redrive.model.breaker import BreakerState
from redrive.model.run import is_unknown
from redrive.model.violation import ViolationCode
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import decode
from redrive.store.verification import HolderRow, VerificationQueries
from redrive.verify.verdict import Verdict

RECHECK_SECONDS = 5.0
"""Time until the second check: several times the poll interval of workers."""

Suspects = dict[str, tuple[str, int]]


async def check_holders(store: VerificationQueries, verdict: Verdict, clock: Clock, leeway: float) -> None:
    verdict.start("I6")
    holders = await store.holders()
    verdict.add_checked("I6", sum(holder.held for holder in holders))
    for holder in holders:
        if holder.since < holder.now - leeway:
            _check_holder(holder, verdict, leeway)
    suspects = await _with_free_slots(store, holders, leeway)
    if suspects:
        await clock.sleep(min(RECHECK_SECONDS, leeway))
        again = await _with_free_slots(store, await store.holders(), leeway)
        for name, (run_id, _) in sorted(suspects.items() & again.items()):
            verdict.add_violation(ViolationCode.LIMIT_NOT_RELEASING, name, run_id=run_id)


async def _with_free_slots(store: VerificationQueries, holders: list[HolderRow], leeway: float) -> Suspects:
    """Return limits with free slots that hold old runs, each with the run to release next."""
    suspects: Suspects = {}
    for limit in holders:
        old = limit.since < limit.now - leeway
        if old and limit.maximum is not None and limit.in_use is not None and limit.in_use < limit.maximum:
            first = await store.first_held(limit.name)
            if first is not None:
                suspects[limit.name] = first
    return suspects


def _check_holder(holder: HolderRow, verdict: Verdict, leeway: float) -> None:
    """Look for faults that need no second check."""
    name, runs, before = holder.name, holder.held, holder.now - leeway
    if is_unknown(name):
        verdict.add_violation(ViolationCode.WORK_UNKNOWN, name, holder=name, runs=runs)
    elif holder.maximum is not None:
        return
    elif holder.body is None or holder.updated_at is None:
        verdict.add_violation(ViolationCode.HOLDER_MISSING, name, runs=runs)
    elif holder.updated_at < before and _admits_calls(holder.body, before):
        verdict.add_violation(ViolationCode.BREAKER_NOT_RELEASING, name, runs=runs, leeway_seconds=leeway)


def _admits_calls(body: str, moment: float) -> bool:
    """Return whether the breaker admits calls.

    Return False while probes run: then the policy decides, which is not stored.
    """
    try:
        dumped = decode(body)
    except NotStorableError:
        dumped = {}
    state = dumped if isinstance(dumped, dict) else {}
    if state.get("probes"):
        return False
    return Breaker.restored(BreakerPolicy(), state).state_at(moment) is not BreakerState.OPEN
