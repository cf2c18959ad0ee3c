"""Simulation of a failed step under another retry policy, from its recorded attempts.

The records show when attempts started, how they failed, and when the step worked again: because it succeeded
later, or because other work did (`Recoveries`). A simulated attempt that starts at that time or later
succeeds; an earlier one fails like the recorded attempt. Without evidence that the step ever worked again,
every attempt fails. Everything that the policy does not control stays as recorded: how long attempts took,
how long work was held or waited for a worker, and the random draws of the jitter. Attempts beyond the
recorded ones fail like the last one, take as long, wait for no worker, and draw the middle of the jitter.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from enum import StrEnum
from typing import NamedTuple

from redrive.model.decision import Reason, Retry
from redrive.model.failure import Failure
from redrive.model.step import Tally
from redrive.policy.retry import RetryPolicy, decide

MIDDLE = 0.5
ROUNDING = 1e-3
"""The tolerance, in seconds, for rounding errors in sums of waits; every real difference is larger."""

MAX_LOOKED_AT = 1_000
"""The maximum number of recoveries to consider for one failure."""

UNCHANGEABLE = frozenset(
    {
        Reason.FINAL_ERROR,
        Reason.UNKNOWN_ERROR,
        Reason.NOT_REPEATABLE,
        Reason.WORKER_CRASHED,
        Reason.HOLDS_SPENT,
    }
)
"""Reasons that depend on the error, not on the number of attempts."""


class Proof(StrEnum):
    """The evidence that a step worked after a certain time."""

    ITSELF = "itself"
    WORKED_AGAIN = "worked_again"
    OTHERS_RECOVERED = "others_recovered"


class Works(NamedTuple):
    """The time from which attempts succeed, with its evidence."""

    since: float
    proof: Proof


class Failed(NamedTuple):
    """A failed attempt. `delay` is the wait that the policy chose afterwards; None: no further attempt.

    bound  the step ended independently of any policy
    """

    started_at: float
    ended_at: float
    delay: float | None
    failure: Failure
    bound: bool = False

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended_at - self.started_at)


class FailedStep(NamedTuple):
    """A step that failed at least once, from its first attempt to its success or its last failure.

    succeeded_at  when the successful attempt started; None if none succeeded
    policy        the policy in use
    repeatable    it may be executed again even if it may have been executed already
    """

    failed: tuple[Failed, ...]
    succeeded_at: float | None
    policy: RetryPolicy
    repeatable: bool = True

    @property
    def first_failed_at(self) -> float:
        return self.failed[0].ended_at

    @property
    def starts(self) -> tuple[float, ...]:
        starts = tuple(attempt.started_at for attempt in self.failed)
        return starts if self.succeeded_at is None else (*starts, self.succeeded_at)


class Relived(NamedTuple):
    """A step under another policy: the start of each attempt, and whether the last one succeeds.

    reason  why no further attempt follows; None if the last one succeeds
    """

    starts: tuple[float, ...]
    reason: Reason | None

    @property
    def succeeded(self) -> bool:
        return self.reason is None


def unseen(step: FailedStep, relived: Relived) -> int:
    """Count the attempts after the last recorded failure, of which it is unknown whether they would fail."""
    return sum(start > step.failed[-1].started_at + ROUNDING for start in relived.starts)


def relive(step: FailedStep, policy: RetryPolicy, works: Works | None) -> Relived:
    """Simulate the step under another policy. The first attempt stays as recorded: no policy affects it."""
    draws, delays = _draws(step), _held_up(step)
    starts, tally, last = [step.failed[0].started_at], Tally(), len(step.failed) - 1
    moment, number = step.failed[0].ended_at, 0
    while True:
        failed = step.failed[min(number, last)]
        draw = draws[number] if number < len(draws) else MIDDLE
        decision = decide(tally, failed.failure, policy, now=moment, draw=draw, repeatable=step.repeatable)
        if failed.bound or not isinstance(decision, Retry):
            reason = Reason.WORKER_CRASHED if failed.bound else decision.explanation.reason
            return Relived(tuple(starts), reason)
        start = decision.at + (delays[number] if number < len(delays) else 0.0)
        starts.append(start)
        tally, number = tally.after(decision), number + 1
        if _works(step, number, start, works):
            return Relived(tuple(starts), None)
        moment = start + step.failed[min(number, last)].seconds


def _works(step: FailedStep, number: int, start: float, works: Works | None) -> bool:
    """Return whether an attempt succeeds. A recorded failure stays one, even if other work succeeded then."""
    if works is None or start < works.since - ROUNDING:
        return False
    return number >= len(step.failed) or start > step.failed[number].started_at + ROUNDING


def _held_up(step: FailedStep) -> list[float]:
    """Return how late each further attempt started, because it was held or waited for a worker."""
    late = []
    for failed, following in zip(step.failed, step.starts[1:], strict=False):
        due = failed.ended_at + (failed.delay or 0.0)
        late.append(max(0.0, following - due))
    return late


def _draws(step: FailedStep) -> list[float]:
    """Return the random draw after each failure, from 0 to 1, to reuse it in the simulation."""
    draws, counted, previous = [], 0, None
    for failed in step.failed:
        hinted = failed.failure.retry_after is not None and failed.failure.error_class == "rate_limited"
        if failed.delay is None or hinted:
            draws.append(MIDDLE)
            continue
        counted += 1
        draws.append(_draw(step.policy, failed, counted, previous))
        previous = failed.delay
    return draws


def _draw(policy: RetryPolicy, failed: Failed, counted: int, previous: float | None) -> float:
    wait = policy.backoff_for(failed.failure.category).wait(counted, draw=MIDDLE, previous=previous)
    if wait is None or failed.delay is None or wait.high <= wait.low:
        return MIDDLE
    return min(1.0, max(0.0, (failed.delay - wait.low) / (wait.high - wait.low)))


class _Recovery(NamedTuple):
    """Work that failed from `since` on, and succeeded at `at`."""

    at: float
    since: float


class _Retries(NamedTuple):
    made: int = 0
    succeeded: int = 0


class Recoveries:
    """When a dependency worked again, according to other work that used it. Add all work, call `settle`, then
    query.

    Two kinds of evidence count. If no work succeeded while a step failed, and some did afterwards, the
    dependency was down and recovered. If other work succeeded in the meantime, that says nothing about this
    step, which may fail because of its data. Other work that failed with the same category at the same time
    and succeeded later always counts.
    """

    def __init__(self) -> None:
        self._successes: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._recoveries: defaultdict[tuple[str, str], list[_Recovery]] = defaultdict(list)
        self._retries: defaultdict[tuple[str, str], _Retries] = defaultdict(_Retries)

    def succeeded(self, dependency: str, at: float) -> None:
        self._successes[dependency].append(at)

    def recovered(self, dependency: str, category: str, since: float, at: float) -> None:
        self._recoveries[dependency, category].append(_Recovery(at, since))

    def retried(self, dependency: str, category: str, step: FailedStep) -> None:
        made, succeeded = self._retries[dependency, category]
        more = len(step.starts) - 1
        self._retries[dependency, category] = _Retries(
            made + more, succeeded + (step.succeeded_at is not None)
        )

    def chance(self, dependency: str, category: str, attempts: int) -> float:
        """Estimate, from other retries, the chance that one of `attempts` further attempts succeeds."""
        made, succeeded = self._retries.get((dependency, category), _Retries())
        return 1.0 - (1.0 - succeeded / made) ** max(0, attempts) if made else 0.0

    def settle(self) -> None:
        for dependency, successes in self._successes.items():
            self._successes[dependency] = array("d", sorted(successes))
        for recoveries in self._recoveries.values():
            recoveries.sort()

    def works(self, dependency: str, category: str, began: float, last: float) -> Works | None:
        """Return when the dependency worked for other work after a step failed from `began` to `last`."""
        signs = (self._worked_again(dependency, began, last), self._recovered(dependency, category, last))
        return min((sign for sign in signs if sign is not None), key=lambda sign: sign.since, default=None)

    def _worked_again(self, dependency: str, began: float, last: float) -> Works | None:
        successes = self._successes.get(dependency, array("d"))
        following = bisect_right(successes, last)
        if following == len(successes) or bisect_right(successes, began) < following:
            return None
        return Works(successes[following], Proof.WORKED_AGAIN)

    def _recovered(self, dependency: str, category: str, last: float) -> Works | None:
        recoveries = self._recoveries.get((dependency, category), [])
        place = bisect_right(recoveries, (last, last))
        for recovery in recoveries[place : place + MAX_LOOKED_AT]:
            if recovery.since <= last:
                return Works(recovery.at, Proof.OTHERS_RECOVERED)
        return None
