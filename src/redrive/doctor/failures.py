"""Failures: breakers that are open or forced, and dead letters that need attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from redrive.doctor.finding import DoctorLimits, Finding, State, count, ok
from redrive.errors import NotStorableError
from redrive.model.breaker import BreakerSnapshot, BreakerState
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import decode
from redrive.store.inspection import BrokenHold, Letters
from redrive.words.time import age, duration


def judge_breakers(breakers: Sequence[BrokenHold]) -> Iterator[Finding]:
    troubled = [finding for hold in breakers if (finding := _breaker(hold))]
    yield from troubled
    if not troubled:
        yield ok(
            "breakers", f"{count(len(breakers), 'breaker')}, none open" if breakers else "there are none"
        )


def _breaker(hold: BrokenHold) -> Finding | None:
    name, now = hold.breaker.name, hold.breaker.now
    snapshot = _snapshot(hold)
    held = f"; {count(hold.held, 'run')} held by it" if hold.held else ""
    if snapshot.force is not None:
        until = "" if snapshot.force.until is None else f" for {duration(snapshot.force.until - now)} more"
        closed = snapshot.force.state is BreakerState.CLOSED
        return Finding(
            "breakers",
            State.WARN,
            f"the breaker {name} is kept {snapshot.force.state.value} by {snapshot.force.by}{until}, "
            f"because {snapshot.force.reason}{held}",
            "It does not open, however many calls fail." if closed else "Work that needs it is on hold.",
            "Let it decide by itself again when the reason is gone.",
            f"redrive breaker auto {quote(name)}",
        )
    if snapshot.state is BreakerState.CLOSED:
        return None
    return Finding(
        "breakers",
        State.WARN,
        f"the breaker {name} is {snapshot.state.value}{held}; {_next_probe(snapshot, now)}",
        "Its dependency failed too often. Work that needs it resumes by itself when the dependency recovers.",
        "Nothing, if it recovers soon; otherwise repair the dependency.",
        f"redrive breaker view {quote(name)}",
    )


def _next_probe(snapshot: BreakerSnapshot, now: float) -> str:
    if snapshot.open_until is None or snapshot.open_until <= now:
        return "it is probed as soon as a worker has work for it"
    return f"it is probed in {duration(snapshot.open_until - now)}"


def _snapshot(hold: BrokenHold) -> BreakerSnapshot:
    try:
        dumped = decode(hold.breaker.body)
    except NotStorableError:
        dumped = {}
    known = dumped if isinstance(dumped, dict) else {}
    return Breaker.restored(BreakerPolicy(), known).snapshot(hold.breaker.now)


def judge_letters(letters: Letters, most: int | None, limits: DoctorLimits) -> Iterator[Finding]:
    """`most` is the maximum number of live dead letters of an org, if there is one."""
    live = letters.live
    if most is not None and letters.fullest >= most:
        yield Finding(
            "dead letters",
            State.BAD,
            f"an organization has {letters.fullest:,} live ones, and dlq_max_size is {most:,}",
            "New permanent failures are stored as failed runs, without a dead letter.",
            "Replay, resolve or archive some, or raise dlq_max_size.",
            "redrive dlq groups",
        )
    needing = live.open + live.exhausted
    if not needing:
        healing = live.scheduled + live.replaying
        rest = f"; {healing:,} {'heals itself' if healing == 1 else 'heal themselves'}" if healing else ""
        yield ok("dead letters", f"none needs you{rest}")
        return
    spent = f", of these {live.exhausted:,} after all their automatic redrives" if live.exhausted else ""
    oldest = 0.0 if letters.oldest_seconds is None else letters.oldest_seconds
    late = oldest >= limits.letter_seconds
    yield Finding(
        "dead letters",
        State.WARN,
        f"{needing:,} {'needs' if needing == 1 else 'need'} you{spent}; the oldest for {age(oldest)}",
        "They stay until an operator handles them."
        + (" The oldest of this work is long overdue." if late else ""),
        "See what they have in common, fix it, and replay them.",
        "redrive dlq groups",
    )
