"""Held work (I6): its breaker or limit must exist, and must still have a reason to hold it.

A limit has free slots for a moment whenever work ends, until a worker polls. So such a limit is only
suspected, and checked a second time: by then, a worker must have released the next run.
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

SECOND_LOOK = 5.0
"""Seconds until the second check: several times the poll interval of workers."""

Suspects = dict[str, tuple[str, int]]


async def check_holders(store: VerificationQueries, verdict: Verdict, clock: Clock, leeway: float) -> None:
    verdict.begin("I6")
    holders = await store.holders()
    verdict.look("I6", sum(holder.held for holder in holders))
    for holder in holders:
        if holder.since < holder.now - leeway and (why := _fault(holder, leeway)):
            verdict.find("I6", holder.name, f"It holds {holder.held:,} runs, but {why}.")
    suspects = await _with_room(store, holders, leeway)
    if suspects:
        await clock.sleep(min(SECOND_LOOK, leeway))
        again = await _with_room(store, await store.holders(), leeway)
        for name, (run_id, _) in sorted(suspects.items() & again.items()):
            text = f"It has free slots, but still holds run {run_id} and perhaps others; is a worker running?"
            verdict.find("I6", name, text)


async def _with_room(store: VerificationQueries, holders: list[HolderRow], leeway: float) -> Suspects:
    """Return the limits with free slots that hold old work, each with the run to release next."""
    suspects: Suspects = {}
    for limit in holders:
        old = limit.since < limit.now - leeway
        if old and limit.maximum is not None and limit.in_use is not None and limit.in_use < limit.maximum:
            first = await store.first_held(limit.name)
            if first is not None:
                suspects[limit.name] = first
    return suspects


def _fault(holder: HolderRow, leeway: float) -> str:
    """Describe a certain fault; empty if there is none."""
    if holder.maximum is not None:
        return ""
    if holder.body is None or holder.updated_at is None:
        return "does not exist"
    before = holder.now - leeway
    if holder.updated_at < before and _lets_through(holder.body, before):
        return f"would have let them through for more than {leeway:g} s; is a worker running?"
    return ""


def _lets_through(body: str, moment: float) -> bool:
    """Tell whether the breaker admits calls; while probes run, its policy decides, which is not stored."""
    try:
        dumped = decode(body)
    except NotStorableError:
        dumped = {}
    known = dumped if isinstance(dumped, dict) else {}
    if known.get("probes"):
        return False
    return Breaker.restored(BreakerPolicy(), known).state_at(moment) is not BreakerState.OPEN
