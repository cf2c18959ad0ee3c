"""A retry policy for one replay, partial or complete (W3, W9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Exponential, Immediate, Linear, Never
from redrive.policy.jitter import Additive, NoJitter, Proportional
from redrive.policy.policy_change import PolicyOverride
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import GATEWAY, RUN, STEP
from redrive.policy.retry import RetryPolicy

OWN = RetryPolicy(
    name="own",
    max_attempts=2,
    backoff=Backoff(Exponential(60.0, 2.0), cap=3600.0, jitter=Additive(5.0)),
    backoff_by_category={Category.RESOURCE: Backoff(Linear(300.0, 300.0), cap=3600.0)},
    also_retry=frozenset({Category.UNKNOWN}),
    max_rate_limit_waits=7,
)


def changed(policy: RetryPolicy, **given: Any) -> RetryPolicy:
    return PolicyOverride.read(given).of(policy)


def test_12_a_partial_override_changes_only_the_fields_that_it_names() -> None:
    """Gap 4."""
    more = changed(OWN, max_retries=3)
    assert more == replace(OWN, name="override", max_attempts=4)
    jitter = changed(OWN, jitter_ratio=0.5)
    assert jitter.backoff == Backoff(Exponential(60.0, 2.0), cap=3600.0, jitter=Proportional(0.5))
    assert (jitter.max_attempts, jitter.also_retry) == (2, OWN.also_retry)
    assert changed(OWN) == replace(OWN, name="override")


def test_12_delays_change_for_every_category() -> None:
    made = changed(OWN, base_delay_ms=1_000, max_delay_ms=9_000)
    assert made.backoff == Backoff(Exponential(1.0, 2.0), cap=9.0, jitter=Additive(5.0))
    assert made.backoff_by_category == {Category.RESOURCE: Backoff(Linear(1.0, 300.0), cap=9.0)}
    steep = changed(OWN, factor=3)
    assert steep.backoff.curve == Exponential(60.0, 3.0)
    assert steep.backoff_by_category[Category.RESOURCE].curve == Exponential(300.0, 3.0)


def test_12_a_base_above_the_cap_raises_the_cap() -> None:
    assert changed(OWN, base_delay_ms=7_200_000).backoff.cap == 7_200.0
    assert changed(OWN, base_delay_ms=7_200_000, max_delay_ms=1_000).backoff.cap == 1.0


@pytest.mark.parametrize("curve", [Immediate(), Never()])
def test_12_a_step_without_waits_gets_the_named_ones(curve: Any) -> None:
    plain = RetryPolicy(name="plain", max_attempts=1, backoff=Backoff(curve, jitter=NoJitter()))
    made = changed(plain, max_retries=2, base_delay_ms=500)
    assert (made.max_attempts, made.backoff.curve) == (3, Exponential(0.5, 2.0))
    assert made.backoff.planned(1) == 0.5


def test_12_a_step_that_is_never_retried_is_retried_by_the_default_waits() -> None:
    never = RetryPolicy(name="never", max_attempts=1, backoff=Backoff(Never()))
    assert changed(never, max_retries=2).backoff == STEP.backoff


def test_the_short_form_is_in_milliseconds_and_counts_retries() -> None:
    short = {
        "max_retries": 5,
        "base_delay_ms": 250,
        "factor": 3,
        "max_delay_ms": 9_000,
        "jitter_ratio": 0.5,
    }
    backoff = Backoff(Exponential(0.25, 3.0), cap=9.0, jitter=Proportional(0.5))
    made = PolicyOverride.read(short).of(STEP)
    assert (made.name, made.max_attempts, made.backoff) == ("override", 6, backoff)


def test_no_retries_at_all_is_a_policy() -> None:
    assert changed(RUN, max_retries=0).max_attempts == 1


@pytest.mark.parametrize("policy", [STEP, GATEWAY])
def test_a_whole_policy_is_taken_as_it_was_shown(policy: RetryPolicy) -> None:
    assert PolicyOverride.read(policy_to_json(policy)).of(OWN) == policy
    assert PolicyOverride.read(policy).of(OWN) == policy


@pytest.mark.parametrize("given", [{"max_retries": 5}, {}, policy_to_json(GATEWAY)])
def test_the_stored_override_equals_the_given_one(given: Any) -> None:
    assert PolicyOverride.read(given).to_json() == given


@loop_over(
    ("given", "named"),
    [
        ({"max_retries": -1}, "max_retries must be a whole number from 0 to 1,000"),
        ({"max_retries": 1_001}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"max_retries": 2.5}, "max_retries"),
        ({"base_delay_ms": -1}, "base_delay_ms"),
        ({"base_delay_ms": float("nan")}, "base_delay_ms"),
        ({"max_delay_ms": 1e30}, "max_delay_ms"),
        ({"factor": 0.5}, "factor must be a number from 1 to 1000"),
        ({"jitter_ratio": 1.01}, "jitter_ratio must be a number from 0 to 1"),
        ({"jitter_ratio": "0.1"}, "jitter_ratio"),
        ({"max_retires": 3}, "no 'max_retires'; it takes max_retries, base_delay_ms"),
        ({"max_attempts": 3}, "lacks fields"),
        ({"backoff": None}, "lacks fields"),
        ([], "must be a JSON object"),
        (None, "must be a JSON object"),
    ],
)
def test_an_error_names_the_allowed_values(given: Any, named: str) -> None:
    with pytest.raises(InvalidValueError, match=named):
        PolicyOverride.read(given)
