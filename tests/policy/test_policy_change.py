"""Policies changed by a few numbers, and how each kind of error is treated under one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import NotFoundError, RedriveError
from redrive.model.failure import Category
from redrive.policy import (
    CALL,
    GATEWAY,
    PRESETS,
    RUN,
    STEP,
    Additive,
    Decorrelated,
    Equal,
    Exponential,
    Full,
    Linear,
    NoJitter,
    Proportional,
)
from redrive.policy.description import consequences
from redrive.policy.jitter import parse_jitter
from redrive.policy.policy_change import Alteration
from redrive.policy.presets import REDRIVE_LINEAR, REDRIVE_NEVER
from redrive.policy.retry import RetryPolicy


def test_unnamed_values_stay() -> None:
    assert Alteration().changes_nothing
    assert Alteration().of(GATEWAY) == GATEWAY
    changed = Alteration(attempts=6, cap=30.0).of(STEP)
    assert (changed.max_attempts, changed.backoff.cap) == (6, 30.0)
    assert (changed.backoff.curve, changed.backoff.jitter) == (STEP.backoff.curve, STEP.backoff.jitter)


def test_a_preset_takes_the_place_of_the_policy() -> None:
    assert Alteration(preset="run").of(CALL) == RUN
    assert Alteration(preset="run", attempts=3).of(CALL).max_attempts == 3


def test_curves() -> None:
    assert Alteration(base=5.0, factor=3.0).of(STEP).backoff.curve == Exponential(5.0, 3.0)
    assert Alteration(curve="linear", increment=7.0).of(STEP).backoff.curve == Linear(2.0, 7.0)
    assert Alteration(increment=60.0).of(REDRIVE_LINEAR).backoff.curve == Linear(300.0, 60.0)
    assert Alteration(curve="exponential", base=1.0).of(REDRIVE_NEVER).backoff.curve == Exponential(1.0, 2.0)
    assert Alteration(base=500.0).of(STEP).backoff.cap == 500.0  # the request did not name the old cap


def test_kinds_of_errors() -> None:
    changed = Alteration(also_retry=("provider_4xx",), never_retry=("unknown", "timeout")).of(GATEWAY)
    assert changed.also_retry == {Category.PROVIDER_4XX}
    assert changed.never_retry == {Category.CONFLICT, Category.UNKNOWN, Category.TIMEOUT}


@loop_over(
    ("text", "expected"),
    [
        ("none", NoJitter()),
        ("full", Full()),
        ("Equal", Equal()),
        ("25%", Proportional(0.25)),
        ("±10%", Proportional(0.1)),
        ("proportional:0.5", Proportional(0.5)),
        ("additive:5", Additive(5.0)),
        ("decorrelated:3", Decorrelated(3.0)),
    ],
)
def test_jitters_as_people_write_them(text: str, expected: object) -> None:
    assert parse_jitter(text) == expected


@loop_over(
    ("alteration", "message"),
    [
        (Alteration(attempts=0), "attempts must be a whole number from 1 to 1,000, got 0"),
        (Alteration(attempts=5000), "attempts must be a whole number from 1 to 1,000, got 5000"),
        (Alteration(factor=0.5), "factor must be a number from 1 to 1000, got 0.5"),
        (Alteration(base=-1.0), "base must be a number of seconds from 0 to 31,536,000, got -1"),
        (
            Alteration(rate_limit_waits=-1),
            "rate_limit_waits must be a whole number from 0 to 1,000, got -1",
        ),
        (
            Alteration(increment=1.0),
            "increment does not apply to the exponential curve; choose another curve",
        ),
        (Alteration(curve="linear"), "increment is missing; the linear curve needs it"),
        (Alteration(curve="immediate", base=1.0), "base does not apply to the immediate curve"),
        (
            Alteration(jitter="lots"),
            "jitter must be one of none, full, equal, 25%, additive:SECONDS, decorrelated:FACTOR; got 'lots'",
        ),
        (Alteration(jitter="additive"), "jitter must be one of none"),
        (Alteration(jitter="full:3"), "jitter must be one of none"),
        (Alteration(jitter="120%"), "jitter must be from 0% to 100%, got '120%'"),
        (
            Alteration(jitter="additive:-1"),
            "jitter is additive, whose maximum must be a number of seconds from 0 to",
        ),
        (Alteration(jitter="x%"), "jitter must be one of none"),
        (Alteration(also_retry=("weather",)), "category must be one of 'timeout'"),
    ],
)
def test_a_value_out_of_bounds_is_rejected_with_the_bounds(alteration: Alteration, message: str) -> None:
    with pytest.raises(RedriveError) as refused:
        alteration.of(STEP)
    assert message in str(refused.value)


def test_an_unknown_preset_is_refused_with_a_suggestion() -> None:
    with pytest.raises(NotFoundError, match=r"no policy 'exponental'; did you mean 'exponential'\?"):
        Alteration(preset="exponental").check()
    with pytest.raises(NotFoundError, match=r"no policy 'zzz'; use one of: step, call, run, gateway"):
        Alteration(preset="zzz").check()


@given(st.sampled_from(list(PRESETS.values())), st.integers(1, 1000), st.floats(0.0, 1e6))
def test_a_changed_policy_is_a_policy(policy: RetryPolicy, attempts: int, cap: float) -> None:
    changed = Alteration(attempts=attempts, cap=cap).of(policy)
    assert changed.max_attempts == attempts
    assert all(each.wait[2] <= changed.backoff.longest for each in changed.explain().attempts)


# The treatment of errors


def test_each_category_under_the_presets() -> None:
    """W5, P2: unknown errors are retried only behind a gateway, a 4xx never."""
    step = {each.category: each for each in consequences(STEP)}
    retried = {category for category, each in step.items() if each.retried}
    assert retried == {
        *(Category.TIMEOUT, Category.NETWORK, Category.PROVIDER_5XX, Category.RATE_LIMIT),
        *(Category.RESOURCE, Category.CANCELLED),
    }
    assert step[Category.TIMEOUT].retries == 3
    assert step[Category.TIMEOUT].waits == "min(120, 2 · 2^(failures - 1)) s, jitter ±25%"
    assert step[Category.CANCELLED].retries is None

    gateway = {each.category: each for each in consequences(GATEWAY)}
    assert gateway[Category.UNKNOWN].retried
    assert gateway[Category.PROVIDER_4XX][1:] == (False, 0, "", "the policy never retries this category")


def test_a_rate_limit_with_a_hint_is_waited_for_uncounted() -> None:
    """D4: also under a policy that never retries."""
    for policy, retries in ((CALL, 2), (REDRIVE_NEVER, 0)):
        [found] = [each for each in consequences(policy) if each.category is Category.RATE_LIMIT]
        times = f"up to {policy.max_rate_limit_waits} times"
        assert found.retries == retries
        assert found.note == f"if the server says when to retry: exactly then, not counted, {times}"
