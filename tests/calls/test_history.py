"""Random calls under random policies, draws and outcomes, compared with a reference implementation.

The reference asks the policy for each decision and applies the limits of a call; it has no threads or
coroutines. Sync and async calls must both have exactly its history.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from tests.calls.script import Play, Script, play_async, play_sync

from redrive import Backoff, Guard, RetryPolicy
from redrive.calls import Dependency
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import AttemptTimeoutError, DeferredError, FinalError, RateLimitedError, RetryableError
from redrive.model.decision import Retry
from redrive.model.step import Tally
from redrive.policy import (
    Additive,
    BudgetPolicy,
    Decorrelated,
    Equal,
    Exponential,
    Full,
    Immediate,
    Linear,
    Never,
    NoJitter,
    Proportional,
    classify,
    decide,
)
from redrive.testing import EPOCH, VirtualClock

TIMEOUT = 1000.0


class Outcome(NamedTuple):
    kind: str
    hint: float | None
    seconds: float

    def made(self) -> object:
        kinds = {"retryable": RetryableError, "final": FinalError, "limited": RateLimitedError}
        return "done" if self.kind == "done" else kinds[self.kind](self.kind, retry_after=self.hint)


@dataclass(frozen=True)
class Case:
    policy: RetryPolicy
    deadline: float | None
    longest_wait: float
    seed: int
    outcomes: list[Outcome]


class History(NamedTuple):
    """Everything that a caller can observe."""

    starts: list[float]
    waits: list[float]
    reasons: list[str]
    ending: str
    end: float


seconds = st.floats(0.0, 50.0, allow_subnormal=False)
curves = st.one_of(
    st.builds(Exponential, seconds, st.floats(1.0, 4.0)),
    st.builds(Linear, seconds, seconds),
    st.builds(Immediate),
    st.builds(Never),
)
jitters = st.one_of(
    st.builds(NoJitter),
    st.builds(Proportional, st.floats(0.0, 1.0)),
    st.builds(Additive, seconds),
    st.builds(Full),
    st.builds(Equal),
    st.builds(Decorrelated, st.floats(1.0, 5.0)),
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 6),
    backoff=st.builds(Backoff, curves, st.floats(0.0, 100.0), jitters),
    max_rate_limit_waits=st.integers(0, 4),
)


def outcomes(taking: st.SearchStrategy[float]) -> st.SearchStrategy[list[Outcome]]:
    kinds = st.sampled_from(["retryable", "retryable", "limited", "limited", "final", "done"])
    failing = st.builds(Outcome, kinds, st.none() | seconds, taking)
    return st.lists(failing, min_size=12, max_size=12)


def cases(taking: st.SearchStrategy[float]) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        policy=policies,
        deadline=st.none() | st.floats(0.001, 200.0),
        longest_wait=st.floats(0.0, 100.0),
        seed=st.integers(0, 2**32),
        outcomes=outcomes(taking),
    )


def lived(case: Case, play: Play) -> tuple[History, list[CallEvent]]:
    clock, events = VirtualClock(), list[CallEvent]()
    takes = tuple(outcome.seconds for outcome in case.outcomes)
    script = Script(*(outcome.made() for outcome in case.outcomes), clock=clock, takes=takes)
    guard = Guard(
        "work",
        policy=case.policy,
        deadline=case.deadline,
        longest_wait=case.longest_wait,
        timeout=TIMEOUT,
        dependency=Dependency("free", budget=BudgetPolicy(retry_cost=0.0), clock=clock),
        hooks=[events.append],
        clock=clock,
        random=random.Random(case.seed).random,
    )
    try:
        ending = str(play(script, guard))
    except (RetryableError, FinalError, RateLimitedError, DeferredError, AttemptTimeoutError) as error:
        ending = type(error).__name__
    reasons = [str(event.reason) if isinstance(event, AttemptFailed) else "recovered" for event in events]
    waited = [wait for wait in clock.waits if wait > 0.0]
    return History(script.times, waited, reasons, ending, clock.time), events


def reference(case: Case, *, is_sync: bool) -> History:
    draw = random.Random(case.seed).random
    history = History([], [], [], "", 0.0)
    time, tally = 0.0, Tally()
    for outcome in case.outcomes:
        history.starts.append(time)
        time += outcome.seconds
        error = outcome.made()
        end = history.starts[-1] + TIMEOUT
        if is_sync and not isinstance(error, Exception) and time >= min(end, case.deadline or end):
            error = AttemptTimeoutError("late")
        if not isinstance(error, Exception):
            recovered = ["recovered"] if len(history.starts) > 1 else []
            return history._replace(reasons=history.reasons + recovered, ending="done", end=time)
        failure = classify(error)
        decision = decide(tally, failure, case.policy, now=EPOCH + time, draw=draw())
        why = str(decision.explanation.reason)
        if not isinstance(decision, Retry):
            return history._replace(reasons=[*history.reasons, why], ending=type(error).__name__, end=time)
        if decision.delay > case.longest_wait:
            return history._replace(reasons=[*history.reasons, "too_long"], ending="DeferredError", end=time)
        if case.deadline is not None and time + decision.delay >= case.deadline:
            return history._replace(
                reasons=[*history.reasons, "deadline"], ending=type(error).__name__, end=time
            )
        history.reasons.append(why)
        if decision.delay > 0.0:
            history.waits.append(decision.delay)
        time += decision.delay
        if decision.counted:
            tally = Tally(tally.failures + 1, tally.rate_limit_waits, tally.holds, decision.delay)
        else:
            tally = Tally(tally.failures, tally.rate_limit_waits + 1, tally.holds, tally.previous_delay)
    raise AssertionError("there are always fewer attempts than outcomes")


@given(cases(st.just(0.0)))
def test_the_limits_hold_when_the_function_takes_no_time(case: Case) -> None:
    history, events = lived(case, play_sync)
    assert 1 <= len(history.starts) <= case.policy.max_attempts + case.policy.max_rate_limit_waits
    assert all(wait <= case.longest_wait for wait in history.waits)
    assert len(history.starts) == len(events) or (history.ending == "done" and not events)
    if case.deadline is not None:
        assert history.end < case.deadline


@given(cases(st.just(0.0) | st.floats(0.0, 60.0)))
def test_every_attempt_starts_when_the_decision_says(case: Case) -> None:
    history, events = lived(case, play_sync)
    expected = 0.0
    for start, outcome, event in zip(history.starts, case.outcomes, events, strict=False):
        assert start == expected
        if isinstance(event, AttemptFailed) and event.wait is not None:
            assert event.seconds == (start + outcome.seconds) - start
            expected = start + outcome.seconds + event.wait


@given(cases(st.just(0.0) | st.floats(0.0, 60.0)))
def test_sync_and_async_calls_have_the_history_of_the_reference(case: Case) -> None:
    """They differ in one point: a sync function that returns after its timeout has failed."""
    assert lived(case, play_sync)[0] == reference(case, is_sync=True)
    assert lived(case, play_async)[0] == reference(case, is_sync=False)


@given(cases(st.just(0.0) | st.floats(0.0, 60.0)))
def test_the_same_seed_gives_the_hooks_the_same_events(case: Case) -> None:
    told = lived(case, play_sync)[1]
    if reference(case, is_sync=True) == reference(case, is_sync=False):
        assert lived(case, play_async)[1] == told
    assert lived(case, play_sync)[1] == told


@given(cases(st.floats(0.0, 60.0)))
def test_no_attempt_starts_at_or_after_the_deadline(case: Case) -> None:
    history, _ = lived(case, play_async)
    if case.deadline is not None:
        assert all(start < case.deadline for start in history.starts)
