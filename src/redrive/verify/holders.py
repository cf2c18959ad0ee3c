"""Runs on hold (I6): their breaker or limit must exist, and must still have a reason to hold them.

Runs that no worker knows wait for a person, so they are violations.

Whenever a run finishes, its limit has a free slot until a worker polls. So the check only suspects a limit
with free slots, and looks again later: by then, a worker must have released the next run.
"""

from __future__ import annotations

from redrive.clock import Clock
from redrive.errors import NotStorableError
from redrive.model.breaker import BreakerState
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import decode
from redrive.store.verification import HolderRow, VerificationQueries
from redrive.verify.verdict import Verdict
from redrive.words.number import plural
from redrive.words.timeline import unknown_work

RECHECK_SECONDS = 5.0
"""Time until the second check: several times the poll interval of workers."""

Suspects = dict[str, tuple[str, int]]


async def check_holders(store: VerificationQueries, verdict: Verdict, clock: Clock, leeway: float) -> None:
    verdict.start("I6")
    holders = await store.holders()
    verdict.add_checked("I6", sum(holder.held for holder in holders))
    for holder in holders:
        if holder.since < holder.now - leeway and (fault := _fault(holder, leeway)):
            verdict.add_violation("I6", holder.name, f"It holds {plural(holder.held, 'run')}, but {fault}.")
    suspects = await _with_free_slots(store, holders, leeway)
    if suspects:
        await clock.sleep(min(RECHECK_SECONDS, leeway))
        again = await _with_free_slots(store, await store.holders(), leeway)
        for name, (run_id, _) in sorted(suspects.items() & again.items()):
            text = f"It has free slots, but still holds run {run_id} and possibly more; is a worker running?"
            verdict.add_violation("I6", name, text)


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


def _fault(holder: HolderRow, leeway: float) -> str:
    """Describe a fault that needs no second check; "" if there is none."""
    if reason := unknown_work(holder.name):
        return reason
    if holder.maximum is not None:
        return ""
    if holder.body is None or holder.updated_at is None:
        return "it doesn't exist"
    before = holder.now - leeway
    if holder.updated_at < before and _admits_calls(holder.body, before):
        return f"it could have released them more than {leeway:g} s ago; is a worker running?"
    return ""


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
