"""Automatic redrives: the policy, their number and their times (M1, M4)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure import Category
from redrive.model.step import Effect
from redrive.policy import Backoff, Custom, Full, Immediate, Linear, RetryPolicy
from redrive.policy.automatic_redrive import (
    RedriveChoice,
    Redriving,
    check_choice,
    check_max_redrives,
    redriving,
    resolve_choice,
    stored_choice,
)
from redrive.policy.codec import decode

MINUTE = 60.0
OPEN, EXHAUSTED = DeadLetterState.OPEN, DeadLetterState.EXHAUSTED
OWN = RetryPolicy(
    name="own",
    max_attempts=3,
    backoff=Backoff(Linear(10.0, 10.0), jitter=Full()),
    backoff_by_category={Category.RATE_LIMIT: Backoff(Immediate())},
    never_retry=frozenset({Category.CONFLICT}),
)


def delays(choice: RedriveChoice, count: int, **options: Any) -> list[float | None]:
    return [
        redriving(choice, Category.TIMEOUT, redrives=n, max_redrives=100, **options).delay
        for n in range(count)
    ]


class TestDelays:
    """M1; n is the number of redrives so far."""

    def test_exponential(self) -> None:
        expected = [min(2.0**n, 60.0) * MINUTE for n in range(9)]
        assert delays("exponential", 9) == expected

    def test_linear(self) -> None:
        assert delays("linear", 4) == [5 * (n + 1) * MINUTE for n in range(4)]

    def test_immediate_is_due_in_the_next_cycle(self) -> None:
        assert delays("immediate", 3) == [0.0, 0.0, 0.0]

    def test_never(self) -> None:
        assert delays("never", 3) == [None, None, None]

    def test_a_custom_function_receives_the_redrives_so_far(self) -> None:
        functions = {"squares": lambda n: float(n * n)}
        assert delays("custom:squares", 4, functions=functions) == [0.0, 1.0, 4.0, 9.0]

    def test_a_custom_policy_draws_its_jitter(self) -> None:
        assert delays(OWN, 2, draw=0.25) == [2.5, 5.0]
        assert delays(OWN, 2, draw=1.0) == [10.0, 20.0]

    def test_a_custom_policy_may_know_categories(self) -> None:
        assert redriving(OWN, Category.RATE_LIMIT).delay == 0.0
        assert redriving(OWN, Category.CONFLICT) == Redriving("never", None, 0, 0, OPEN, None)

    def test_every_number_of_redrives_has_a_delay(self) -> None:
        found = redriving("exponential", Category.TIMEOUT, redrives=999, max_redrives=1000)
        assert found.delay == 3600.0


class TestCustom:
    @pytest.mark.parametrize(
        ("answer", "delay"), [(-5.0, 0.0), (math.nan, 3600.0), ("soon", 3600.0), (math.inf, 365 * 86_400.0)]
    )
    def test_an_invalid_result_of_the_function_strands_no_letter(self, answer: Any, delay: float) -> None:
        found = redriving("custom:own", Category.UNKNOWN, functions={"own": lambda n: answer})
        assert (found.state, found.delay) == (OPEN, delay)

    def test_an_exception_of_the_function_strands_no_letter(self) -> None:
        found = redriving("custom:own", Category.UNKNOWN, functions={"own": lambda n: 1 / 0})
        assert (found.state, found.delay) == (OPEN, 3600.0)

    def test_a_function_that_is_not_registered_here_is_checked_again_within_the_hour(self) -> None:
        found = redriving("custom:elsewhere", Category.UNKNOWN, functions={})
        assert found == Redriving("custom:elsewhere", None, 3, 0, OPEN, 3600.0)

    def test_none_ends_it(self) -> None:
        functions = {"once": lambda n: None if n else 1.0}
        first = redriving("custom:once", Category.TIMEOUT, functions=functions)
        second = redriving("custom:once", Category.TIMEOUT, redrives=1, functions=functions)
        assert (first.state, first.delay) == (OPEN, 1.0)
        assert (second.state, second.delay) == (EXHAUSTED, None)

    def test_none_at_once_is_never(self) -> None:
        found = redriving("custom:no", Category.TIMEOUT, functions={"no": lambda n: None})
        assert (found.state, found.delay) == (OPEN, None)


class TestLimit:
    @pytest.mark.parametrize("choice", ["linear", "exponential", "immediate", "custom:own"])
    def test_used_up_is_exhausted(self, choice: str) -> None:
        functions = {"own": lambda n: 1.0}
        found = [redriving(choice, Category.TIMEOUT, redrives=n, functions=functions) for n in range(5)]
        assert [each.state for each in found] == [OPEN, OPEN, OPEN, EXHAUSTED, EXHAUSTED]
        assert [each.delay is None for each in found] == [False, False, False, True, True]
        assert [each.redrives for each in found] == [0, 1, 2, 3, 4]

    def test_is_that_of_the_policy_unless_given(self) -> None:
        assert redriving(OWN, Category.TIMEOUT).max_redrives == 2
        assert redriving(OWN, Category.TIMEOUT, max_redrives=7).max_redrives == 7

    def test_of_none_waits_for_a_person_and_is_not_exhausted(self) -> None:
        for redrives in (0, 5):
            found = redriving("exponential", Category.TIMEOUT, redrives=redrives, max_redrives=0)
            assert (found.state, found.delay, found.max_redrives) == (OPEN, None, 0)

    def test_never_is_never_exhausted(self) -> None:
        assert redriving("never", Category.TIMEOUT, redrives=9, max_redrives=3).state == OPEN


class TestByCategory:
    @loop_over(
        ("category", "name"),
        [
            (Category.PROVIDER_5XX, "exponential"),
            (Category.RATE_LIMIT, "exponential"),
            (Category.NETWORK, "exponential"),
            (Category.TIMEOUT, "exponential"),
            (Category.CANCELLED, "exponential"),
            (Category.RESOURCE, "linear"),
            (Category.PERMISSION, "never"),
            (Category.VALIDATION, "never"),
            (Category.CONFLICT, "never"),
            (Category.MISSING_CONFIG, "never"),
            (Category.PROVIDER_4XX, "never"),
            (Category.UNKNOWN, "never"),
        ],
    )
    def test_its_default_policy(self, category: Category, name: str) -> None:
        """M4."""
        assert redriving("by_category", category).name == name

    def test_another_default_takes_the_place_of_exponential_only(self) -> None:
        categories = (Category.NETWORK, Category.RESOURCE, Category.VALIDATION)
        found = [resolve_choice("by_category", each, "immediate") for each in categories]
        assert [each.name for each in found if isinstance(each, RetryPolicy)] == [
            "immediate",
            "linear",
            "never",
        ]

    def test_a_decision_by_a_person_is_not_overruled(self) -> None:
        assert redriving("immediate", Category.VALIDATION).delay == 0.0


class TestEffect:
    def test_unsafe_work_that_may_have_been_executed_is_never_redriven(self) -> None:
        for choice in ("exponential", "by_category", "custom:own", OWN):
            found = redriving(choice, Category.TIMEOUT, effect=Effect.UNSAFE, may_have_executed=True)
            assert found == Redriving("never", None, 0, 0, OPEN, None)

    @pytest.mark.parametrize(
        ("effect", "executed"),
        [(Effect.UNSAFE, False), (Effect.IDEMPOTENT, True), (Effect.NONE, True)],
    )
    def test_the_rest_is(self, effect: Effect, executed: bool) -> None:
        found = redriving("immediate", Category.TIMEOUT, effect=effect, may_have_executed=executed)
        assert found.delay == 0.0


class TestStored:
    @pytest.mark.parametrize("choice", ["linear", "exponential", "immediate", OWN, "custom:own", "never"])
    def test_the_choice_comes_back_from_the_columns(self, choice: RedriveChoice) -> None:
        first = redriving(choice, Category.TIMEOUT, draw=0.5, functions={"own": lambda n: 5.0})
        again = stored_choice(first.name, first.policy)
        most = first.max_redrives
        assert (
            redriving(again, Category.TIMEOUT, max_redrives=most, functions={"own": lambda n: 5.0}) == first
        )

    def test_the_policy_is_json(self) -> None:
        policy = redriving("linear", Category.TIMEOUT).policy
        assert policy is not None
        stored = decode(policy)
        assert isinstance(stored, dict)
        assert stored["name"] == "linear"


class TestChecked:
    @pytest.mark.parametrize("choice", ["sometimes", "", "custom:", "custom:" + "x" * 100, None, 5, "NEVER"])
    def test_invalid_choices(self, choice: object) -> None:
        with pytest.raises(
            InvalidValueError, match=r"^a redrive policy must be never, linear, exponential, immediate"
        ):
            check_choice(choice)

    def test_a_policy_that_cannot_be_kept(self) -> None:
        with pytest.raises(InvalidValueError, match="cannot be stored"):
            check_choice(RetryPolicy(max_attempts=2, backoff=Backoff(Custom(float))))

    @pytest.mark.parametrize("name", ["", "custom:own", "x" * 101])
    def test_a_policy_whose_name_means_something_else(self, name: str) -> None:
        with pytest.raises(InvalidValueError, match="the name of a redrive policy must have 1 to 100"):
            check_choice(RetryPolicy(name=name, max_attempts=2, backoff=Backoff(Immediate())))

    @pytest.mark.parametrize("most", [-1, 1001, True, 2.0, "3"])
    def test_how_often(self, most: object) -> None:
        with pytest.raises(InvalidValueError, match="max_redrives must be a whole number from 0 to 1,000"):
            check_max_redrives(most)
        assert [check_max_redrives(each) for each in (None, 0, 1000)] == [None, 0, 1000]
