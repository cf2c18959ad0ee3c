"""The verdict on a dead letter: why its work stopped, which changes followed, and what is likely to work.

A verdict consists of facts; `redrive.words.verdict` writes the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import ACTIONABLE, DeadLetterState
from redrive.model.decision import DecisionFacts
from redrive.model.fact import Fact, fact
from redrive.model.failure import Category, ErrorClass
from redrive.model.failure_group import UNKNOWN_VERSIONS
from redrive.model.step import Effect

Likely = Literal["likely", "unlikely", "unknown"]

_PASSING = frozenset(
    {Category.TIMEOUT, Category.NETWORK, Category.PROVIDER_5XX, Category.RATE_LIMIT, Category.RESOURCE}
)
"""Failures that often pass without a change. All other failures need a change."""


class BreakerFact(NamedTuple):
    """The current state of the step's breaker; `open_until` is None unless it is open.

    `idle`: half-open, but nothing waits; the next run tries the dependency.
    """

    name: str
    state: str
    closed_at: float | None = None
    open_until: float | None = None
    idle: bool = False


class ReplayCounts(NamedTuple):
    succeeded: int = 0
    failed: int = 0


class LetterFacts(NamedTuple):
    """The facts about a dead letter at `now`. "Since" means since `failed_at`.

    versions        other code versions that have started since
    failing         versions that have failed in the same way since
    succeeded       how often the step has succeeded since; may be incomplete
    succeeded_in    the versions in which the step succeeded
    occurred        how often the same failure has occurred since in other work
    most            the limit of the counts
    replays         results of replays of this letter
    other_replays   results of replays of other letters with the same failure
    waits_for       dead letters that must be resolved first
    stuck_behind    those of them that no automatic redrive will resolve
    """

    state: str
    now: float
    failed_at: float
    step: str
    decision: DecisionFacts
    category: str
    error_class: str
    error_type: str
    attempts: int
    code_version: str = ""
    effect: str = Effect.IDEMPOTENT
    may_have_executed: bool = True
    breaker: BreakerFact | None = None
    versions: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    succeeded: int = 0
    succeeded_in: frozenset[str] = frozenset()
    occurred: int = 0
    most: int = 1_000
    replays: ReplayCounts = ReplayCounts()
    other_replays: ReplayCounts = ReplayCounts()
    waits_for: tuple[str, ...] = ()
    stuck_behind: tuple[str, ...] = ()
    redrives: int = 0
    max_redrives: int = 0
    next_redrive_at: float | None = None

    @property
    def breaker_open(self) -> bool:
        return self.breaker is not None and self.breaker.state != BreakerState.CLOSED

    @property
    def breaker_closed_since(self) -> bool:
        closed_at = None if self.breaker is None else self.breaker.closed_at
        return not self.breaker_open and closed_at is not None and closed_at > self.failed_at

    @property
    def new_versions(self) -> frozenset[str]:
        """Versions other than the failed one in which no failure was recorded."""
        known = self.versions | self.succeeded_in
        return known - self.failing - UNKNOWN_VERSIONS - {self.code_version}

    @property
    def may_pass(self) -> bool:
        return self.error_class != ErrorClass.FINAL and self.category in _PASSING


class ReplayVerdict(NamedTuple):
    """
    why           why the work stopped
    changed       the changes since the failure
    advice        the next step for a person, and warnings
    likely        whether a replay now is likely to succeed
    heals_itself  whether the work continues without a person
    """

    why: Fact
    changed: tuple[Fact, ...]
    advice: tuple[Fact, ...]
    likely: Likely
    heals_itself: bool


def verdict(facts: LetterFacts) -> ReplayVerdict:
    likely, advice = (
        _judge_by_state(facts)
        or _judge_by_obstacles(facts)
        or _judge_by_replays(facts)
        or _judge_by_changes(facts)
    )
    why = fact(
        "stopped",
        attempts=facts.attempts,
        error_type=facts.error_type,
        category=str(facts.category),
        decision=facts.decision,
    )
    return ReplayVerdict(
        why=why,
        changed=tuple(_changes(facts)),
        advice=(advice, *_redrive(facts), *_warning(facts)),
        likely=likely,
        heals_itself=_heals_itself(facts),
    )


# Changes since the failure


def _changes(facts: LetterFacts) -> Iterator[Fact]:
    yield from _breaker(facts)
    yield from _versions(facts)
    if facts.succeeded:
        yield fact("step_succeeded", step=facts.step, **_times(facts.succeeded, facts))
    if facts.occurred:
        yield fact("failure_occurred", **_times(facts.occurred, facts))
    yield from _replays("replayed", facts.replays, facts.most)
    yield from _replays("others_replayed", facts.other_replays, facts.most)
    if facts.waits_for:
        yield fact("waits_for", dead_letters=list(facts.waits_for))


def _breaker(facts: LetterFacts) -> Iterator[Fact]:
    breaker = facts.breaker
    if breaker is None:
        return
    if breaker.state == BreakerState.HALF_OPEN:
        yield fact("breaker_idle" if breaker.idle else "breaker_probing", breaker=breaker.name)
    elif facts.breaker_open:
        until = breaker.open_until
        yield fact(
            "breaker_open", breaker=breaker.name, probe_in=None if until is None else until - facts.now
        )
    elif breaker.closed_at is not None and facts.breaker_closed_since:
        yield fact("breaker_closed", breaker=breaker.name, seconds_ago=facts.now - breaker.closed_at)


def _versions(facts: LetterFacts) -> Iterator[Fact]:
    new = sorted(facts.new_versions)
    still = sorted(facts.failing - UNKNOWN_VERSIONS - {facts.code_version})
    if new:
        failed_in = None if facts.code_version in UNKNOWN_VERSIONS else facts.code_version
        yield fact("code_changed", versions=new, failed_in=failed_in)
    if still:
        yield fact("still_fails", versions=still)


def _replays(code: str, counts: ReplayCounts, most: int) -> Iterator[Fact]:
    if counts.succeeded or counts.failed:
        yield fact(code, succeeded=counts.succeeded, failed=counts.failed, capped=max(counts) >= most)


def _times(times: int, facts: LetterFacts) -> dict[str, Any]:
    return {"times": times, "capped": times >= facts.most}


# Likelihood of success


def _judge_by_state(facts: LetterFacts) -> tuple[Likely, Fact] | None:
    if facts.state == DeadLetterState.REPLAYING:
        return "unknown", fact("being_replayed")
    if facts.state not in ACTIONABLE:
        return "unknown", fact("closed", state=str(facts.state))
    return None


def _judge_by_obstacles(facts: LetterFacts) -> tuple[Likely, Fact] | None:
    if facts.stuck_behind:
        return "unlikely", fact("stuck_behind", dead_letters=list(facts.stuck_behind))
    if facts.waits_for:
        return "unlikely", fact("resolve_first", dead_letters=list(facts.waits_for))
    if facts.breaker is not None and facts.breaker_open and not facts.breaker.idle:
        return "unlikely", fact("wait_for_breaker", breaker=facts.breaker.name)
    return None


def _judge_by_replays(facts: LetterFacts) -> tuple[Likely, Fact] | None:
    """Judge by replays of letters with the same failure. Its own replays all failed before `failed_at`."""
    others, improved = facts.other_replays, _has_improved(facts)
    only = others.succeeded + others.failed == 1
    if others.succeeded > others.failed:
        return "likely", fact("replays_succeeded", only=only)
    if others.failed > others.succeeded and not improved:
        return "unlikely", fact("replays_failed", only=only)
    if facts.replays.failed and not others.succeeded and not improved:
        return "unlikely", fact("replay_failed_before")
    return None


def _judge_by_changes(facts: LetterFacts) -> tuple[Likely, Fact]:
    if facts.may_pass:
        return _judge_passing(facts)
    if facts.new_versions and facts.succeeded_in & facts.new_versions:
        return "likely", fact("works_in_new_version")
    if facts.new_versions:
        return "unknown", fact("try_new_version")
    if facts.error_type.rpartition(".")[2] == "PayloadError":
        return "unlikely", fact("payload_mismatch", mismatch=facts.decision.mismatch)
    return "unlikely", fact("needs_change")


def _judge_passing(facts: LetterFacts) -> tuple[Likely, Fact]:
    if facts.occurred > facts.succeeded:
        return "unlikely", fact("still_happening")
    if facts.succeeded or facts.breaker_closed_since:
        return "likely", fact("has_passed")
    return "unknown", fact("may_have_passed")


def _has_improved(facts: LetterFacts) -> bool:
    """Return whether a new version, a success or a closed breaker followed the failure."""
    return bool(facts.new_versions or facts.succeeded or facts.breaker_closed_since)


# Automatic redrives and warnings


def _heals_itself(facts: LetterFacts) -> bool:
    if facts.state == DeadLetterState.REPLAYING:
        return True
    waits = facts.state == DeadLetterState.OPEN and facts.next_redrive_at is not None
    return waits and not facts.waits_for


def _redrive(facts: LetterFacts) -> Iterator[Fact]:
    if facts.state == DeadLetterState.EXHAUSTED:
        yield fact("redrives_used_up", redrives=facts.redrives)
    elif _heals_itself(facts) and facts.next_redrive_at is not None:
        seconds = max(0.0, facts.next_redrive_at - facts.now)
        yield fact("redriven", seconds=seconds, number=facts.redrives + 1, of=facts.max_redrives or None)


def _warning(facts: LetterFacts) -> Iterator[Fact]:
    if facts.state in ACTIONABLE and facts.effect == Effect.UNSAFE and facts.may_have_executed:
        yield fact("may_repeat_effect")
