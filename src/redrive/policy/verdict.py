"""The verdict on a dead letter: why it stopped, what has changed since, and what is likely to work.

For an operator at three in the morning: short sentences with exact numbers, derived from facts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import ACTIONABLE, DeadLetterState
from redrive.model.decision import Reason
from redrive.model.failure import Category, ErrorClass
from redrive.model.failure_group import UNKNOWN_VERSIONS
from redrive.model.step import Effect
from redrive.words.number import names, plural
from redrive.words.time import age, duration

MAX_NAMED = 3

Likely = Literal["likely", "unlikely", "unknown"]

_PASSING = frozenset(
    {Category.TIMEOUT, Category.NETWORK, Category.PROVIDER_5XX, Category.RATE_LIMIT, Category.RESOURCE}
)
"""Failures that tend to pass by themselves; all others need a change."""

CAREFUL = (
    "Careful: it may have taken effect already, and a replay may repeat that. "
    "Look at the other side before you replay."
)
"""The end of the advice about an unsafe step that may have been executed."""


class BreakerFact(NamedTuple):
    """The breaker of the step as it is now; `open_until` while it is open."""

    name: str
    state: str
    closed_at: float | None = None
    open_until: float | None = None


class ReplayCounts(NamedTuple):
    succeeded: int = 0
    failed: int = 0


class LetterFacts(NamedTuple):
    """The facts about a dead letter at `now`. "Since" means since `failed_at`.

    versions        other versions of the code that have started since
    failing         versions that have failed in the same way since
    succeeded       how often its step has succeeded since, at least
    succeeded_in    the versions in which it did
    occurred        how often the same failure has occurred since, elsewhere
    most            the limit of the counts
    replays         of this letter
    other_replays   of other letters with the same failure
    waits_for       dead letters that must be resolved before it
    """

    state: str
    now: float
    failed_at: float
    step: str
    reason: str
    explanation: str
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
    """`likely`: whether a replay now is likely to succeed. `heals_itself`: no person has to act."""

    why: str
    changed: tuple[str, ...]
    advice: str
    likely: Likely
    heals_itself: bool

    def __str__(self) -> str:
        return "\n".join([self.why, *self.changed, self.advice])


def verdict(facts: LetterFacts) -> ReplayVerdict:
    likely, advice = (
        _judge_by_state(facts)
        or _judge_by_obstacles(facts)
        or _judge_by_replays(facts)
        or _judge_by_changes(facts)
    )
    parts = (advice, _redrive(facts), _warning(facts))
    return ReplayVerdict(
        why=_why(facts),
        changed=tuple(_changes(facts)),
        advice=" ".join(part for part in parts if part),
        likely=likely,
        heals_itself=_heals_itself(facts),
    )


def _why(facts: LetterFacts) -> str:
    reasons = {reason.value: reason.sentence for reason in Reason}
    because = reasons.get(facts.reason, facts.explanation) or "no reason was kept"
    attempts = plural(facts.attempts, "attempt")
    return f"It stopped after {attempts} with {facts.error_type} ({facts.category}): {because}."


# What has changed


def _changes(facts: LetterFacts) -> Iterator[str]:
    yield from _breaker(facts)
    yield from _versions(facts)
    if facts.succeeded:
        yield f"The step {facts.step!r} has succeeded {_times(facts.succeeded, facts)} since."
    if facts.occurred:
        yield f"The same failure has occurred {_times(facts.occurred, facts)} elsewhere since."
    yield from _count_replays("This one", facts.replays, facts.most)
    yield from _count_replays("Others with the same failure", facts.other_replays, facts.most)
    if facts.waits_for:
        yield f"It waits for {names(facts.waits_for, MAX_NAMED)}, not resolved yet."


def _breaker(facts: LetterFacts) -> Iterator[str]:
    breaker = facts.breaker
    if breaker is None:
        return
    if breaker.state == BreakerState.HALF_OPEN:
        yield f"The breaker {breaker.name!r} is finding out whether the dependency is back."
    elif facts.breaker_open:
        until = breaker.open_until
        again = "" if until is None else f"; it is tried again in {duration(until - facts.now)}"
        yield f"The breaker {breaker.name!r} is open: the dependency does not work at the moment{again}."
    elif breaker.closed_at is not None and facts.breaker_closed_since:
        ago = age(facts.now - breaker.closed_at)
        yield f"The breaker {breaker.name!r} has closed {ago} ago: the dependency works again."


def _versions(facts: LetterFacts) -> Iterator[str]:
    new = sorted(facts.new_versions)
    still = sorted(facts.failing - UNKNOWN_VERSIONS - {facts.code_version})
    before = f", it failed in {facts.code_version}" if facts.code_version not in UNKNOWN_VERSIONS else ""
    if new:
        yield f"Another version of the code is at work: {names(new, MAX_NAMED)}{before}."
    if still:
        yield f"It fails in the same way in {names(still, MAX_NAMED)}."


def _count_replays(who: str, record: ReplayCounts, most: int) -> Iterator[str]:
    if record.succeeded or record.failed:
        least = "at least " if max(record) >= most else ""
        times = plural(record.succeeded + record.failed, "replay")
        yield f"{who}: {least}{times} so far, {record.succeeded:,} succeeded, {record.failed:,} failed."


# What is likely to work


def _judge_by_state(facts: LetterFacts) -> tuple[Likely, str] | None:
    if facts.state == DeadLetterState.REPLAYING:
        return "unknown", "It is being replayed: wait for the outcome."
    if facts.state not in ACTIONABLE:
        return "unknown", f"It is {facts.state.lower()}: there is nothing to do."
    return None


def _judge_by_obstacles(facts: LetterFacts) -> tuple[Likely, str] | None:
    if facts.waits_for:
        return "unlikely", f"See to {names(facts.waits_for, MAX_NAMED)} first."
    if facts.breaker_open:
        return "unlikely", "Wait until the breaker closes; a replay before that is held until then."
    return None


def _judge_by_replays(facts: LetterFacts) -> tuple[Likely, str] | None:
    """Judge by replays of letters with the same failure; this one's own replays failed before `failed_at`."""
    others, improved = facts.other_replays, _has_improved(facts)
    alone = others.succeeded + others.failed == 1
    most = "the only replay of the same failure has" if alone else "most replays of the same failure have"
    if others.succeeded > others.failed:
        return "likely", f"Replay it: {most} succeeded."
    if others.failed > others.succeeded and not improved:
        return "unlikely", f"Find the cause first: {most} failed."
    if facts.replays.failed and not others.succeeded and not improved:
        return "unlikely", "Find the cause first: it has failed in a replay already, and nothing has changed."
    return None


def _judge_by_changes(facts: LetterFacts) -> tuple[Likely, str]:
    if facts.may_pass:
        return _judge_passing(facts)
    if facts.new_versions and facts.succeeded_in & facts.new_versions:
        return "likely", "Replay it: the step works in another version of the code."
    if facts.new_versions:
        return "unknown", "Replay one to see: the code was changed, whether in this place is not known."
    return "unlikely", "A replay would fail again, unless the code, the settings or the payload have changed."


def _judge_passing(facts: LetterFacts) -> tuple[Likely, str]:
    if facts.occurred > facts.succeeded:
        return "unlikely", "Wait, or find the cause: it is still happening."
    if facts.succeeded or facts.breaker_closed_since:
        return "likely", "Replay it: what it failed of has passed."
    return "unknown", "Replay one to see: such failures often pass, and nothing shows yet that this one has."


def _has_improved(facts: LetterFacts) -> bool:
    """Tell whether anything has changed for the better since it failed."""
    return bool(facts.new_versions or facts.succeeded or facts.breaker_closed_since)


# What comes by itself, and what to beware of


def _heals_itself(facts: LetterFacts) -> bool:
    if facts.state == DeadLetterState.REPLAYING:
        return True
    waits = facts.state == DeadLetterState.OPEN and facts.next_redrive_at is not None
    return waits and not facts.waits_for


def _redrive(facts: LetterFacts) -> str:
    if facts.state == DeadLetterState.EXHAUSTED:
        return f"Its {plural(facts.redrives, 'automatic replay')} did not help; there will be no further one."
    if not _heals_itself(facts) or facts.next_redrive_at is None:
        return ""
    turn = f" ({facts.redrives + 1:,} of {facts.max_redrives:,})" if facts.max_redrives else ""
    left = facts.next_redrive_at - facts.now
    when = f"in {duration(left)}" if left > 0.0 else "as soon as the processor gets to it"
    return f"It is replayed automatically {when}{turn}."


def _warning(facts: LetterFacts) -> str:
    if facts.state not in ACTIONABLE or facts.effect != Effect.UNSAFE or not facts.may_have_executed:
        return ""
    return CAREFUL


# Words


def _times(number: int, facts: LetterFacts) -> str:
    if number >= facts.most:
        return f"at least {number:,} times"
    return "once" if number == 1 else f"{number:,} times"
