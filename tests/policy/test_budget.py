"""The retry budget: retries cannot multiply the load of an outage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidValueError
from redrive.policy import Budget, BudgetPolicy


def test_a_hundred_retries_in_a_row_then_none() -> None:
    budget = Budget()
    assert sum(budget.take() for _ in range(1000)) == 100


def test_five_successes_pay_for_one_retry() -> None:
    budget = Budget(BudgetPolicy(capacity=5.0))
    assert budget.take()
    for _ in range(4):
        budget.give_back()
        assert not budget.take()
    budget.give_back()
    assert budget.take()


def test_it_never_holds_more_than_its_capacity() -> None:
    budget = Budget(BudgetPolicy(capacity=10.0))
    for _ in range(100):
        budget.give_back()
    assert budget.tokens == 10.0


@given(successes=st.lists(st.booleans(), max_size=2000))
def test_in_the_long_run_retries_stay_below_a_fifth_of_the_successes(successes: list[bool]) -> None:
    budget = Budget()
    retries = 0
    for succeeded in successes:
        if succeeded:
            budget.give_back()
        else:
            retries += budget.take()
    assert retries <= 100 + sum(successes) / 5


@pytest.mark.parametrize("wrong", [{"capacity": -1.0}, {"retry_cost": -1.0}, {"success_gain": "1"}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError):
        BudgetPolicy(**wrong)
