"""A retry policy for one replay, in short or whole (W3, W9)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Exponential
from redrive.policy.jitter import Proportional
from redrive.policy.policy_change import override_from_json
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import GATEWAY, STEP
from redrive.policy.retry import RetryPolicy


def test_what_is_left_out_is_as_for_a_step() -> None:
    made = override_from_json({})
    assert (made.max_attempts, made.backoff) == (STEP.max_attempts, STEP.backoff)


def test_the_short_form_is_in_milliseconds_and_counts_retries() -> None:
    short = {
        "max_retries": 5,
        "base_delay_ms": 250,
        "factor": 3,
        "max_delay_ms": 9_000,
        "jitter_ratio": 0.5,
    }
    backoff = Backoff(Exponential(0.25, 3.0), cap=9.0, jitter=Proportional(0.5))
    assert override_from_json(short) == RetryPolicy(name="override", max_attempts=6, backoff=backoff)


def test_no_retries_at_all_is_a_policy() -> None:
    assert override_from_json({"max_retries": 0}).max_attempts == 1


@pytest.mark.parametrize("policy", [STEP, GATEWAY])
def test_a_whole_policy_is_taken_as_it_was_shown(policy: RetryPolicy) -> None:
    assert override_from_json(policy_to_json(policy)) == policy


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
def test_what_is_wrong_is_named_with_what_is_allowed(given: Any, named: str) -> None:
    with pytest.raises(InvalidValueError, match=named):
        override_from_json(given)
