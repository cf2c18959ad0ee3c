"""A retry policy survives storage unchanged, or is rejected with a reason."""

from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy import (
    GATEWAY,
    PRESETS,
    STEP,
    Additive,
    Backoff,
    Custom,
    Decorrelated,
    Ending,
    Equal,
    Exponential,
    Full,
    Immediate,
    Linear,
    Never,
    NoJitter,
    Proportional,
    RetryPolicy,
)
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.codec import decode, encode
from redrive.policy.curve import CURVES
from redrive.policy.jitter import JITTERS
from redrive.policy.policy_json import policy_from_json, policy_to_json

DELAYS = st.floats(0.0, MAX_DELAY_SECONDS) | st.integers(0, 100_000)
FACTORS = st.floats(1.0, 1000.0)
CATEGORIES = st.sampled_from(Category)
BACKOFFS = st.builds(
    Backoff,
    st.builds(Exponential, DELAYS, FACTORS)
    | st.builds(Linear, DELAYS, DELAYS)
    | st.sampled_from([Immediate(), Never()]),
    DELAYS,
    st.builds(Proportional, st.floats(0.0, 1.0))
    | st.builds(Additive, DELAYS)
    | st.builds(Decorrelated, FACTORS)
    | st.sampled_from([NoJitter(), Full(), Equal()]),
)
POLICIES = st.builds(
    RetryPolicy,
    name=st.text(),
    max_attempts=st.integers(1, 1_000_000),
    backoff=BACKOFFS,
    backoff_by_category=st.dictionaries(CATEGORIES, BACKOFFS),
    also_retry=st.frozensets(CATEGORIES),
    never_retry=st.frozensets(CATEGORIES),
    max_rate_limit_waits=st.integers(0, 1_000_000),
    max_holds=st.integers(0, 1_000_000_000),
    ending=st.sampled_from(Ending),
)


def stored(policy: RetryPolicy) -> dict[str, Any]:
    return policy_to_json(policy)


class TestRoundTrip:
    @given(POLICIES)
    def test_any_policy_comes_back_equal(self, policy: RetryPolicy) -> None:
        assert policy_from_json(decode(encode(policy_to_json(policy)))) == policy

    @loop_over("policy", PRESETS.values())
    def test_so_does_every_preset(self, policy: RetryPolicy) -> None:
        back = policy_from_json(decode(encode(policy_to_json(policy))))
        assert back == policy
        assert str(back.explain()) == str(policy.explain())

    def test_the_stored_form_stays_as_it_is(self) -> None:
        """Old stored work must stay readable."""
        resource = Backoff(Linear(300.0, 60.0), jitter=Decorrelated())
        assert stored(replace(GATEWAY, backoff_by_category={Category.RESOURCE: resource})) == {
            "name": "gateway",
            "max_attempts": 3,
            "backoff": {
                "curve": {"kind": "exponential", "base": 5.0, "factor": 2.0},
                "cap": 31536000.0,
                "jitter": {"kind": "additive", "maximum": 5.0},
            },
            "backoff_by_category": {
                "resource": {
                    "curve": {"kind": "linear", "base": 300.0, "step": 60.0},
                    "cap": 31536000.0,
                    "jitter": {"kind": "decorrelated", "factor": 3.0},
                }
            },
            "also_retry": ["unknown"],
            "never_retry": ["conflict", "provider_4xx"],
            "max_rate_limit_waits": 100,
            "max_holds": 10000,
            "ending": "bury",
        }

    def test_no_field_is_forgotten(self) -> None:
        assert set(stored(STEP)) == {field.name for field in fields(RetryPolicy)}
        assert set(stored(STEP)["backoff"]) == {field.name for field in fields(Backoff)}

    def test_the_words_of_curves_and_jitters(self) -> None:
        assert set(CURVES) == {"exponential", "linear", "table", "immediate", "never"}
        assert set(JITTERS) == {"none", "proportional", "additive", "full", "equal", "decorrelated"}


@dataclass(frozen=True)
class Wobble:
    def interval(self, plan: object) -> tuple[float, float]:
        return 0.0, 1.0

    def describe(self) -> str:
        return "wobble"


class TestNotStorable:
    def test_a_function_is_rejected_with_an_alternative(self) -> None:
        custom = Backoff(Custom(lambda failures: failures * 2.0))
        message = "a Custom curve holds a function.*cannot be stored; use one of Exponential, Linear, Table"
        for policy in (
            replace(STEP, backoff=custom),
            replace(STEP, backoff_by_category={Category.NETWORK: custom}),
        ):
            with pytest.raises(InvalidValueError, match=message):
                policy_to_json(policy)

    def test_so_is_a_custom_jitter(self) -> None:
        policy = replace(STEP, backoff=Backoff(Exponential(1.0), jitter=Wobble()))
        with pytest.raises(
            InvalidValueError, match=r"the jitter Wobble\(\) cannot be stored; use one of NoJit"
        ):
            policy_to_json(policy)

    def test_a_subclass_is_not_stored_as_its_base(self) -> None:
        class Steeper(Exponential):
            pass

        with pytest.raises(InvalidValueError, match="Steeper"):
            policy_to_json(replace(STEP, backoff=Backoff(Steeper(1.0))))

    def test_a_category_that_does_not_exist_is_refused_before_it_is_stored(self) -> None:
        with pytest.raises(InvalidValueError, match="also_retry must be one of 'timeout'"):
            replace(STEP, also_retry=frozenset({"nonsense"}))  # type: ignore[arg-type]


WRONG: list[tuple[tuple[str, ...], object, str]] = [
    (("name",), 7, "name must be of type str, got 7"),
    (("max_attempts",), 0, "max_attempts must be a whole number"),
    (("max_attempts",), "4", "max_attempts must be a whole number"),
    (("max_holds",), None, "max_holds must be a whole number"),
    (("ending",), "explode", "ending must be one of 'bury', 'block', 'fail', got 'explode'"),
    (("ending",), [], "ending must be one of"),
    (("backoff",), None, "backoff must be a JSON object, got None"),
    (("backoff", "cap"), "x", "cap must be a number"),
    (("backoff", "surprise"), 1, "backoff has unknown fields: 'surprise'; known are curve, cap, jitter"),
    (("backoff", "curve"), [], "curve must be a JSON object"),
    (("backoff", "curve"), {}, "the kind of a curve must be one of exponential, linear, .*, got None"),
    (("backoff", "curve", "kind"), "custom", "the kind of a curve must be one of .*, got 'custom'"),
    (("backoff", "curve", "kind"), [], "the kind of a curve must be one of"),
    (("backoff", "curve", "kind"), "linear", "the curve 'linear' has unknown fields: 'factor'"),
    (("backoff", "curve", "base"), float("nan"), "base must be a number"),
    (("backoff", "curve"), {"kind": "linear", "base": 1}, "the curve 'linear' lacks fields: 'step'"),
    (("backoff", "jitter", "kind"), "wild", "the kind of a jitter must be one of none, .*, got 'wild'"),
    (("backoff", "jitter", "ratio"), 2, "ratio must be a number from 0 to 1"),
    (("backoff_by_category",), [], "backoff_by_category must be a JSON object"),
    (("backoff_by_category", "nonsense"), {}, "category must be one of"),
    (("backoff_by_category", "timeout"), {}, "backoff_by_category lacks fields: 'cap', 'curve', 'jitter'"),
    (("also_retry",), "timeout", "also_retry must be a list of categories, got 'timeout'"),
    (("also_retry",), ["nonsense"], "category must be one of"),
    (("never_retry",), [[]], "category must be one of"),
    (("surprise",), 1, "a stored policy has unknown fields: 'surprise'; known are name, max_attempts"),
]


class TestReading:
    @loop_over(("path", "value", "message"), WRONG)
    def test_an_invalid_policy_is_rejected_with_the_allowed_values(
        self, path: tuple[str, ...], value: object, message: str
    ) -> None:
        whole = inner = deepcopy(stored(STEP))
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        with pytest.raises(InvalidValueError, match=message):
            policy_from_json(whole)

    @loop_over("name", [field.name for field in fields(RetryPolicy)])
    def test_no_field_may_be_missing(self, name: str) -> None:
        value = stored(STEP)
        del value[name]
        with pytest.raises(InvalidValueError, match=f"a stored policy lacks fields: '{name}'"):
            policy_from_json(value)

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
    def test_anything_else_is_refused_too(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match="a stored policy must be a JSON object"):
            policy_from_json(value)
