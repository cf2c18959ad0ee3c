"""What if the policy had been another one? A step that failed is lived through again, by what is known of it.

Known is when its attempts started, how they failed, and from when on it worked: because it succeeded itself
later, or because others did (redrive.policy.recovery). An attempt of the other policy that starts from then
on succeeds; one that starts before fails as the recorded one did. Where nothing shows that it ever worked,
every attempt fails. What the policy has no say in stays as it was: how long attempts took, how long work was
held or waited for a worker, what was drawn for the jitter. Attempts beyond the recorded ones fail like the
last one, take as long, wait for nobody, and draw the middle.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.decision import Decision, Reason, Retry
from redrive.model.failure import Failure
from redrive.model.step import Tally
from redrive.policy.retry import RetryPolicy, decide

MIDDLE = 0.5
ROUNDING = 1e-3
"""Seconds that sums of waits may be off; no wait is decided that finely."""

UNCHANGEABLE = frozenset(
    {
        Reason.FINAL_ERROR,
        Reason.UNKNOWN_ERROR,
        Reason.NOT_REPEATABLE,
        Reason.WORKER_CRASHED,
        Reason.HOLDS_SPENT,
    }
)
"""Ends that come by the error, not by the number of attempts."""


class Proof(StrEnum):
    """What shows that it worked from a moment on."""

    ITSELF = "itself"
    WORKED_AGAIN = "worked_again"
    OTHERS_RECOVERED = "others_recovered"


class Works(NamedTuple):
    """An attempt that starts at `since` or later succeeds."""

    since: float
    proof: Proof


class Failed(NamedTuple):
    """An attempt that failed. `delay` is the wait that was decided on then; None: it was given up.

    bound  no policy would have gone on: nobody asked one
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
    """A step of a run that failed at least once, from its first attempt until it succeeded or was given up.

    succeeded_at  when the attempt started that succeeded; None if it was given up
    policy        the one that it had
    repeatable    what may have been executed may be executed again
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
        starts = tuple(each.started_at for each in self.failed)
        return starts if self.succeeded_at is None else (*starts, self.succeeded_at)


class Relived(NamedTuple):
    """How it would have gone: when each attempt starts, and whether the last one succeeds.

    reason  why it is given up; None if it succeeds
    """

    starts: tuple[float, ...]
    reason: Reason | None

    @property
    def succeeded(self) -> bool:
        return self.reason is None


def unseen(trouble: FailedStep, relived: Relived) -> int:
    """How many of its attempts start after it was last seen to fail: of these nobody knows that they do."""
    return sum(start > trouble.failed[-1].started_at + ROUNDING for start in relived.starts)


def relive(trouble: FailedStep, policy: RetryPolicy, works: Works | None) -> Relived:
    """The same step under another policy. The first attempt is as it was: no policy has a say in it."""
    draws, delays = _draws(trouble), _held_up(trouble)
    starts, tally, last = [trouble.failed[0].started_at], Tally(), len(trouble.failed) - 1
    moment, number = trouble.failed[0].ended_at, 0
    while True:
        failed = trouble.failed[min(number, last)]
        draw = draws[number] if number < len(draws) else MIDDLE
        decision = decide(tally, failed.failure, policy, now=moment, draw=draw, repeatable=trouble.repeatable)
        if failed.bound or not isinstance(decision, Retry):
            return Relived(tuple(starts), _why(failed, decision))
        start = decision.at + (delays[number] if number < len(delays) else 0.0)
        starts.append(start)
        tally, number = tally.after(decision), number + 1
        if _works(trouble, number, start, works):
            return Relived(tuple(starts), None)
        moment = start + trouble.failed[min(number, last)].seconds


def _works(trouble: FailedStep, number: int, start: float, works: Works | None) -> bool:
    """Of what was seen to fail, nothing else is believed, be it in the same moment as a success."""
    if works is None or start < works.since - ROUNDING:
        return False
    return number >= len(trouble.failed) or start > trouble.failed[number].started_at + ROUNDING


def _why(failed: Failed, decision: Decision) -> Reason:
    return Reason.WORKER_CRASHED if failed.bound else decision.explanation.reason


def _held_up(trouble: FailedStep) -> list[float]:
    """How much later than it was due each further attempt was started: held, or waiting for a worker."""
    late = []
    for failed, following in zip(trouble.failed, trouble.starts[1:], strict=False):
        due = failed.ended_at + (failed.delay or 0.0)
        late.append(max(0.0, following - due))
    return late


def _draws(trouble: FailedStep) -> list[float]:
    """What was drawn after each failure, from 0 to 1: the same is drawn again."""
    draws, counted, previous = [], 0, None
    for failed in trouble.failed:
        hinted = failed.failure.retry_after is not None and failed.failure.error_class == "rate_limited"
        if failed.delay is None or hinted:
            draws.append(MIDDLE)
            continue
        counted += 1
        draws.append(_draw(trouble.policy, failed, counted, previous))
        previous = failed.delay
    return draws


def _draw(policy: RetryPolicy, failed: Failed, counted: int, previous: float | None) -> float:
    wait = policy.backoff_for(failed.failure.category).wait(counted, draw=MIDDLE, previous=previous)
    if wait is None or failed.delay is None or wait.high <= wait.low:
        return MIDDLE
    return min(1.0, max(0.0, (failed.delay - wait.low) / (wait.high - wait.low)))
