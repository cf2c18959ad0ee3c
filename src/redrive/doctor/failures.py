"""Judge breakers that are open or forced, and dead letters that need attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from redrive.doctor.finding import DoctorLimits, Finding, ok, warn
from redrive.errors import NotStorableError
from redrive.model.breaker import BreakerSnapshot, BreakerState
from redrive.model.finding import FindingCode
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import decode
from redrive.store.inspection import BlockedOrders, BrokenHold, Letters


def judge_breakers(breakers: Sequence[BrokenHold]) -> Iterator[Finding]:
    troubled = [finding for hold in breakers if (finding := _breaker(hold))]
    yield from troubled
    if not breakers:
        yield ok(FindingCode.NO_BREAKER)
    elif not troubled:
        yield ok(FindingCode.BREAKERS_CLOSED, breakers=len(breakers))


def _breaker(hold: BrokenHold) -> Finding | None:
    name, now = hold.breaker.name, hold.breaker.now
    snapshot = _snapshot(hold)
    force = snapshot.force
    if force is not None:
        return warn(
            FindingCode.BREAKER_FORCED,
            f"redrive breaker auto {quote(name)}",
            breaker=name,
            breaker_state=force.state,
            by=force.by,
            reason=force.reason,
            remaining_seconds=None if force.until is None else force.until - now,
            held_runs=hold.held,
        )
    if snapshot.state is BreakerState.CLOSED or snapshot.is_idle(hold.held):
        return None
    return warn(
        FindingCode.BREAKER_TRIPPED,
        f"redrive breaker view {quote(name)}",
        breaker=name,
        breaker_state=snapshot.state,
        held_runs=hold.held,
        probe_in_seconds=_seconds_to_probe(snapshot, now),
    )


def _seconds_to_probe(snapshot: BreakerSnapshot, now: float) -> float | None:
    """Return None if the next run is a probe."""
    if snapshot.open_until is None or snapshot.open_until <= now:
        return None
    return snapshot.open_until - now


def _snapshot(hold: BrokenHold) -> BreakerSnapshot:
    try:
        dumped = decode(hold.breaker.body)
    except NotStorableError:
        dumped = {}
    body = dumped if isinstance(dumped, dict) else {}
    return Breaker.restored(BreakerPolicy(), body).snapshot(hold.breaker.now)


def judge_blocked_orders(blocked: BlockedOrders | None) -> Iterator[Finding]:
    if blocked is not None:
        yield warn(
            FindingCode.LETTERS_BLOCKING,
            f"redrive dlq view {blocked.letter_id}",
            runs=blocked.runs,
            order_keys=blocked.order_keys,
            dead_letter_id=blocked.letter_id,
        )


def judge_letters(letters: Letters, max_letters: int | None, limits: DoctorLimits) -> Iterator[Finding]:
    """`max_letters` is the configured number of live dead letters per organization, or None."""
    live = letters.live
    if max_letters is not None and letters.fullest >= max_letters:
        yield warn(
            FindingCode.LETTERS_FULL, "redrive dlq groups", dead_letters=letters.fullest, limit=max_letters
        )
    if letters.stuck:
        yield warn(
            FindingCode.LETTERS_STUCK,
            f"redrive dlq view {letters.first_stuck}",
            dead_letters=letters.stuck,
            dead_letter_id=letters.first_stuck,
        )
    need_you = live.open + live.exhausted
    if not need_you:
        yield ok(FindingCode.LETTERS_HANDLED, self_healing=live.scheduled + live.replaying)
        return
    oldest = 0.0 if letters.oldest_seconds is None else letters.oldest_seconds
    yield warn(
        FindingCode.LETTERS_NEED_YOU,
        "redrive dlq groups",
        dead_letters=need_you,
        exhausted=live.exhausted,
        oldest_seconds=oldest,
        limit_seconds=limits.letter_seconds,
        is_late=oldest >= limits.letter_seconds,
    )
