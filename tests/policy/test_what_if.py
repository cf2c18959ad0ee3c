"""A recorded step under another policy: by hand, and for any history that a policy can produce."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.model.decision import Reason, Retry
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.step import Tally
from redrive.policy import STEP, Additive, Backoff, Decorrelated, Exponential, Full, NoJitter, Proportional
from redrive.policy.comparison import PolicyComparison, percentile
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.policy_change import Alteration
from redrive.policy.retry import RetryPolicy, decide
from redrive.policy.what_if import Failed, FailedStep, Proof, Recoveries, Works, relive

EVEN = RetryPolicy(name="even", max_attempts=3, backoff=Backoff(Exponential(10.0, 2.0)))
"""Waits 10 and 20 s."""


def failure(category: Category = Category.TIMEOUT, **changes: object) -> Failure:
    error_class = CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL)
    return Failure(category, error_class, "", "", "", "", "")._replace(**changes)  # type: ignore[arg-type]


def failed(start: float, delay: float | None, seconds: float = 1.0, **changes: object) -> Failed:
    return Failed(start, start + seconds, delay, failure(), **changes)  # type: ignore[arg-type]


def buried() -> FailedStep:
    """Three failed attempts of a second each, at 0, 11 and 32 s."""
    return FailedStep((failed(0.0, 10.0), failed(11.0, 20.0), failed(32.0, None)), None, EVEN)


def saved() -> FailedStep:
    """Two failures, and a success at 32 s."""
    return FailedStep((failed(0.0, 10.0), failed(11.0, 20.0)), 32.0, EVEN)


def allowing(attempts: int, policy: RetryPolicy = EVEN) -> RetryPolicy:
    return replace(policy, max_attempts=attempts)


# By hand


def test_a_further_attempt_comes_when_it_works_again() -> None:
    """The fourth is due 40 s after the third has ended, at 73 s; the dependency works from 60 s on."""
    found = relive(buried(), allowing(4), Works(60.0, Proof.WORKED_AGAIN))
    assert found.starts == (0.0, 11.0, 32.0, 73.0)
    assert found.succeeded


def test_a_further_attempt_that_comes_too_early_fails_like_the_last_one() -> None:
    found = relive(buried(), allowing(4), Works(73.1, Proof.WORKED_AGAIN))
    assert (found.starts, found.reason) == ((0.0, 11.0, 32.0, 73.0), Reason.ATTEMPTS_SPENT)


def test_without_evidence_every_attempt_fails() -> None:
    found = relive(buried(), allowing(5), None)
    assert found.starts == (0.0, 11.0, 32.0, 73.0, 154.0)
    assert found.reason is Reason.ATTEMPTS_SPENT


def test_a_shorter_policy_loses_steps_that_succeeded() -> None:
    found = relive(saved(), allowing(2), Works(32.0, Proof.ITSELF))
    assert (found.starts, found.succeeded) == ((0.0, 11.0), False)


def test_shorter_waits_come_too_early_and_longer_ones_too_late_but_in_time() -> None:
    quick = replace(EVEN, backoff=Backoff(Exponential(1.0, 2.0)))
    assert relive(saved(), quick, Works(32.0, Proof.ITSELF)).starts == (0.0, 2.0, 5.0)
    slow = replace(EVEN, backoff=Backoff(Exponential(100.0, 2.0)))
    found = relive(saved(), slow, Works(32.0, Proof.ITSELF))
    assert (found.starts, found.succeeded) == ((0.0, 101.0), True)


@pytest.mark.parametrize("category", [Category.VALIDATION, Category.PROVIDER_4XX, Category.UNKNOWN])
def test_a_failure_that_is_not_retried_stays_a_dead_letter(category: Category) -> None:
    """W5: even if other steps show that the dependency worked."""
    final = FailedStep((Failed(0.0, 1.0, None, failure(category)),), None, EVEN)
    found = relive(final, allowing(100), Works(2.0, Proof.WORKED_AGAIN))
    assert found.starts == (0.0,)
    assert found.reason in (Reason.FINAL_ERROR, Reason.UNKNOWN_ERROR)


def test_a_policy_that_retries_more_kinds_of_errors_saves_them() -> None:
    unknown = FailedStep((Failed(0.0, 1.0, None, failure(Category.UNKNOWN)),), None, EVEN)
    also = replace(EVEN, also_retry=frozenset({Category.UNKNOWN}))
    assert relive(unknown, also, Works(5.0, Proof.ITSELF)).starts == (0.0, 11.0)


def test_work_that_may_have_been_executed_is_not_executed_twice() -> None:
    unsafe = buried()._replace(repeatable=False)
    first = unsafe.failed[0]._replace(failure=failure(delivery=Delivery.NEVER_SEEN))
    unsafe = unsafe._replace(failed=(first, *unsafe.failed[1:]))
    found = relive(unsafe, allowing(9), Works(40.0, Proof.ITSELF))
    assert (found.starts, found.reason) == ((0.0, 11.0), Reason.NOT_REPEATABLE)


def test_a_failure_that_no_policy_decided_stays() -> None:
    crashed = FailedStep((failed(0.0, None, bound=True),), None, EVEN)
    found = relive(crashed, allowing(9), Works(5.0, Proof.ITSELF))
    assert (found.starts, found.succeeded) == ((0.0,), False)


def test_time_that_work_was_held_is_as_it_was() -> None:
    """The second attempt was due at 11 s and started at 100 s, because its breaker was open."""
    held = FailedStep((failed(0.0, 10.0), failed(100.0, 20.0)), 121.0, EVEN)
    assert relive(held, EVEN, Works(121.0, Proof.ITSELF)).starts == (0.0, 100.0, 121.0)
    slower = replace(EVEN, backoff=Backoff(Exponential(15.0, 2.0)))
    assert relive(held, slower, Works(121.0, Proof.ITSELF)).starts == (0.0, 105.0, 136.0)


def test_a_wait_that_a_server_asked_for_is_not_counted() -> None:
    """D4."""
    limited = failure(Category.RATE_LIMIT, retry_after=50.0)
    trouble = FailedStep((Failed(0.0, 1.0, 50.0, limited), failed(51.0, None)), None, allowing(1))
    assert relive(trouble, allowing(1), None).starts == (0.0, 51.0)
    assert relive(trouble, allowing(2), Works(60.0, Proof.ITSELF)).starts == (0.0, 51.0, 62.0)
    impatient = replace(allowing(2), max_rate_limit_waits=0)
    assert relive(trouble, impatient, None).reason is Reason.RATE_LIMIT_WAITS_SPENT


def test_recorded_draws_are_used_again_and_others_are_the_middle() -> None:
    jittered = replace(EVEN, backoff=Backoff(Exponential(10.0, 2.0), jitter=Proportional(0.5)))
    lucky = FailedStep((failed(0.0, 5.0), failed(6.0, 10.0), failed(17.0, None)), None, jittered)
    assert relive(lucky, allowing(4, jittered), None).starts == (0.0, 6.0, 17.0, 58.0)
    doubled = Alteration(base=20.0, attempts=4).of(jittered)
    assert relive(lucky, doubled, None).starts == (0.0, 11.0, 32.0, 113.0)


# Evidence that the dependency worked again


def test_a_dependency_without_successes_worked_again_with_the_first_success() -> None:
    known = Recoveries()
    for at in (90.0, -5.0, 70.0):
        known.succeeded("bank", at)
    known.settle()
    assert known.works("bank", "timeout", 0.0, 33.0) == Works(70.0, Proof.WORKED_AGAIN)
    assert known.works("bank", "timeout", 0.0, 95.0) is None
    assert known.works("post", "timeout", 0.0, 33.0) is None


def test_while_others_succeed_only_equal_failures_count() -> None:
    """A step that fails while others succeed may fail because of its own data."""
    known = Recoveries()
    for at in (20.0, 70.0, 80.0):
        known.succeeded("bank", at)
    known.recovered("bank", "timeout", 40.0, 60.0)  # it began to fail only afterwards
    known.recovered("bank", "network", 10.0, 50.0)
    known.recovered("bank", "timeout", 10.0, 80.0)
    known.settle()
    assert known.works("bank", "timeout", 0.0, 33.0) == Works(80.0, Proof.OTHERS_RECOVERED)
    assert known.works("bank", "resource", 0.0, 33.0) is None


def test_the_chance_of_further_attempts_is_that_of_other_retries() -> None:
    known = Recoveries()
    known.retried("bank", "timeout", saved())  # two retries, one of which succeeded
    known.retried("bank", "timeout", buried())  # two retries, none of which succeeded
    assert known.chance("bank", "timeout", 2) == pytest.approx(1 - 0.75**2)
    assert known.chance("bank", "timeout", 0) == known.chance("bank", "network", 9) == 0.0


# Counting


def test_the_figures_of_a_comparison() -> None:
    four, none = allowing(4), PolicyComparison()
    for trouble, works in (
        (buried(), Works(60.0, Proof.WORKED_AGAIN)),
        (buried(), Works(1000.0, Proof.ITSELF)),
        (buried(), None),
        (saved(), Works(32.0, Proof.ITSELF)),
    ):
        none.add(trouble, relive(trouble, four, works), works, chance=0.5)
    assert (none.failures, none.recorded.dead_letters, none.changed.dead_letters) == (4, 3, 2)
    assert none.avoided == {Proof.WORKED_AGAIN: 1}
    assert (none.too_early, none.unknown, none.final, none.made) == (1, 1, 0, 0)
    assert none.hoped_for == {"unknown": 0.5}
    assert (none.recorded.attempts, none.changed.attempts) == (12, 15)
    assert none.recorded.busiest == (0.0, 12)
    assert none.changed.busiest == (0.0, 12)
    assert (none.recorded.waited(0.5), none.changed.waited(0.95)) == (31.0, 72.0)


def test_new_dead_letters_with_an_unknown_outcome_are_distinguished() -> None:
    """A dead letter at 11 s, when the dependency failed, or 5 s later, when it may have worked."""
    found = PolicyComparison()
    for policy in (allowing(2), replace(EVEN, backoff=Backoff(Exponential(8.0, 1.0)))):
        found.add(saved(), relive(saved(), policy, Works(32.0, Proof.ITSELF)), Works(32.0, Proof.ITSELF))
    assert (found.made, found.unsure) == (2, 1)


def test_percentiles() -> None:
    assert percentile([], 0.5) is None
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 2.0, 3.0, 3.0]


# Any history

JITTERS = st.sampled_from([NoJitter(), Proportional(0.25), Additive(5.0), Full(), Decorrelated(3.0)])
SECONDS = st.floats(0.0, 300.0)
POLICIES = st.builds(
    lambda attempts, base, factor, cap, jitter: RetryPolicy(
        max_attempts=attempts, backoff=Backoff(Exponential(base, factor), cap, jitter)
    ),
    st.integers(1, 6),
    st.floats(0.01, 60.0),
    st.floats(1.0, 4.0),
    st.floats(0.0, 600.0),
    JITTERS,
)


@st.composite
def lived(draw: st.DrawFn) -> tuple[FailedStep, Works | None]:
    """A history of failures of any kind under a policy, with facts about the dependency."""
    policy = draw(POLICIES)
    moment, tally, tried = draw(SECONDS), Tally(), []
    succeeds_after = draw(st.integers(1, 7))
    while True:
        hint = draw(st.none() | SECONDS)
        happened = failure(
            draw(st.sampled_from([Category.TIMEOUT, Category.RATE_LIMIT, Category.VALIDATION])),
            retry_after=hint,
        )
        start, moment = moment, moment + draw(SECONDS)
        decision = decide(tally, happened, policy, now=moment, draw=draw(st.floats(0.0, 1.0)))
        delay = decision.delay if isinstance(decision, Retry) else None
        tried.append(Failed(start, moment, delay, happened))
        if not isinstance(decision, Retry):
            works = draw(st.none() | st.floats(0.1, 5_000.0))
            known = None if works is None else Works(moment + works, Proof.WORKED_AGAIN)
            return FailedStep(tuple(tried), None, policy), known
        tally, moment = tally.after(decision), decision.at + draw(SECONDS)
        if len(tried) >= succeeds_after:
            return FailedStep(tuple(tried), moment, policy), Works(moment, Proof.ITSELF)


@given(lived())
def test_the_policy_that_it_had_changes_nothing(story: tuple[FailedStep, Works | None]) -> None:
    trouble, works = story
    found = relive(trouble, trouble.policy, works)
    assert found.starts == pytest.approx(trouble.starts, abs=1e-6)
    assert found.succeeded == (trouble.succeeded_at is not None)


@given(lived(), st.integers(1, 20))
def test_more_attempts_never_make_a_dead_letter_nor_less_load(
    story: tuple[FailedStep, Works | None], more: int
) -> None:
    trouble, works = story
    fewer = relive(trouble, trouble.policy, works)
    found = relive(trouble, allowing(trouble.policy.max_attempts + more, trouble.policy), works)
    assert found.succeeded or not fewer.succeeded
    assert len(found.starts) >= len(fewer.starts)
    assert found.starts[: len(fewer.starts)] == fewer.starts


@given(lived(), POLICIES, st.floats(0.0, 1_000.0))
def test_a_dependency_that_works_earlier_never_loses_more_steps(
    story: tuple[FailedStep, Works | None], policy: RetryPolicy, earlier: float
) -> None:
    trouble, works = story
    late = relive(trouble, policy, works)
    soon = relive(trouble, policy, Works(0.0 if works is None else works.since - earlier, Proof.WORKED_AGAIN))
    assert soon.succeeded or not late.succeeded
    assert len(soon.starts) <= len(late.starts)


@given(lived(), POLICIES)
def test_no_policy_exceeds_its_attempts_and_time_goes_forward(
    story: tuple[FailedStep, Works | None], policy: RetryPolicy
) -> None:
    trouble, works = story
    found = relive(trouble, policy, works)
    assert found.starts[0] == trouble.starts[0]
    assert list(found.starts) == sorted(found.starts)
    hinted = sum(each.failure.category is Category.RATE_LIMIT for each in trouble.failed)
    if not hinted:
        assert len(found.starts) <= policy.max_attempts


@given(st.lists(lived(), max_size=6), POLICIES)
def test_every_failure_is_counted_once(
    stories: list[tuple[FailedStep, Works | None]], policy: RetryPolicy
) -> None:
    found = PolicyComparison()
    for trouble, works in stories:
        found.add(trouble, relive(trouble, policy, works), works)
    avoided = sum(found.avoided.values())
    assert found.recorded.dead_letters == avoided + found.too_early + found.final + found.unknown
    assert found.changed.dead_letters == found.recorded.dead_letters - avoided + found.made
    assert found.failures == len(stories)
    assert sum(found.changed.minutes.values()) == found.changed.attempts
    assert len(found.changed.waits) == found.failures - found.changed.dead_letters


def test_the_preset_of_steps_is_lived_through_as_documented() -> None:
    """W3: waits of 2, 4, 8 s; the middle of the jitter."""
    trouble = FailedStep((failed(0.0, None, seconds=0.0),), None, allowing(1, STEP))
    assert relive(trouble, STEP, None).starts == (0.0, 2.0, 6.0, 14.0)
