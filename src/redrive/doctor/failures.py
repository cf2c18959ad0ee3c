"""Judge breakers that are open or forced, and dead letters that need attention."""

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
from redrive.words.state import status
from redrive.words.time import age, duration


def judge_breakers(breakers: Sequence[BrokenHold]) -> Iterator[Finding]:
    troubled = [finding for hold in breakers if (finding := _breaker(hold))]
    yield from troubled
    if not troubled:
        yield ok("breakers", f"{count(len(breakers), 'breaker')}, none open" if breakers else "no breakers")


def _breaker(hold: BrokenHold) -> Finding | None:
    name, now = hold.breaker.name, hold.breaker.now
    snapshot = _snapshot(hold)
    held = f"; {count(hold.held, 'run')} on hold" if hold.held else ""
    if snapshot.force is not None:
        until = "" if snapshot.force.until is None else f" for another {duration(snapshot.force.until - now)}"
        closed = snapshot.force.state is BreakerState.CLOSED
        return Finding(
            "breakers",
            State.WARN,
            f"{snapshot.force.by} forced the breaker {name} {status(snapshot.force.state, 'breaker')}{until} "
            f"(reason: {snapshot.force.reason}){held}",
            "It won't open, no matter how many calls fail." if closed else "Runs that need it are on hold.",
            "Return it to automatic control when the reason no longer applies.",
            f"redrive breaker auto {quote(name)}",
        )
    if snapshot.state is BreakerState.CLOSED or snapshot.is_idle(hold.held):
        return None
    return Finding(
        "breakers",
        State.WARN,
        f"the breaker {name} is {status(snapshot.state, 'breaker')}{held}; {_next_probe(snapshot, now)}",
        "Its dependency failed too often. Runs on hold resume automatically when the dependency recovers.",
        "If the dependency doesn't recover soon, repair it.",
        f"redrive breaker view {quote(name)}",
    )


def _next_probe(snapshot: BreakerSnapshot, now: float) -> str:
    if snapshot.open_until is None or snapshot.open_until <= now:
        return "next probe as soon as a worker has work for it"
    return f"next probe in {duration(snapshot.open_until - now)}"


def _snapshot(hold: BrokenHold) -> BreakerSnapshot:
    try:
        dumped = decode(hold.breaker.body)
    except NotStorableError:
        dumped = {}
    body = dumped if isinstance(dumped, dict) else {}
    return Breaker.restored(BreakerPolicy(), body).snapshot(hold.breaker.now)


def judge_letters(letters: Letters, max_letters: int | None, limits: DoctorLimits) -> Iterator[Finding]:
    """`max_letters` is the configured number of live dead letters per organization, or None."""
    live = letters.live
    if max_letters is not None and letters.fullest >= max_letters:
        yield Finding(
            "dead letters",
            State.WARN,
            f"an organization has {letters.fullest:,} live dead letters; dlq_max_size is {max_letters:,}",
            "New permanent failures still become dead letters; the size only alerts.",
            "Replay, resolve or archive some dead letters, or raise dlq_max_size.",
            "redrive dlq groups",
        )
    if letters.stuck:
        verb = "waits" if letters.stuck == 1 else "wait"
        yield Finding(
            "dead letters",
            State.WARN,
            f"{count(letters.stuck, 'dead letter')} {verb} for another one that is exhausted, ignored or "
            f"archived",
            "No automatic redrive will resolve the other one, so they would wait forever.",
            "Replay or resolve the other one, or remove the dependency.",
            f"redrive dlq view {letters.first_stuck}",
        )
    need_you = live.open + live.exhausted
    if not need_you:
        healing = live.scheduled + live.replaying
        rest = f"; {healing:,} {'heals itself' if healing == 1 else 'heal themselves'}" if healing else ""
        yield ok("dead letters", f"none need you{rest}")
        return
    exhausted = f" ({live.exhausted:,} without automatic redrives left)" if live.exhausted else ""
    oldest = 0.0 if letters.oldest_seconds is None else letters.oldest_seconds
    is_late = oldest >= limits.letter_seconds
    yield Finding(
        "dead letters",
        State.WARN,
        f"{need_you:,} {'needs' if need_you == 1 else 'need'} you{exhausted}, the oldest for {age(oldest)}",
        "They stay until an operator handles them."
        + (f" The oldest has waited longer than {duration(limits.letter_seconds)}." if is_late else ""),
        "Find out what they have in common, fix the cause, and replay them.",
        "redrive dlq groups",
    )
