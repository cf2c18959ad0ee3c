"""Alternative spellings of names: accepted if they are known, with one value per name (issue 21, 14)."""

from __future__ import annotations

import pytest

from redrive.errors import InvalidValueError
from redrive.model.spelling import own_names, snake_case

KNOWN = {"from_step_index", "mode", "max_retries", "policy"}
ALIASES = {"retry_policy": "policy"}


@pytest.mark.parametrize(
    ("camel", "snake"),
    [
        ("fromStepIndex", "from_step_index"),
        ("maxRetries", "max_retries"),
        ("mode", "mode"),
        ("from_step_index", "from_step_index"),
        ("ID", "ID"),
        ("", ""),
    ],
)
def test_14_camel_case_as_snake_case(camel: str, snake: str) -> None:
    assert snake_case(camel) == snake


def test_14_known_names_are_found_by_any_spelling() -> None:
    given = {"fromStepIndex": 1, "mode": 2, "retry_policy": 3, "retryPolicy2": 4}
    assert own_names(given, KNOWN, ALIASES) == {
        "from_step_index": 1,
        "mode": 2,
        "policy": 3,
        "retryPolicy2": 4,
    }
    assert own_names({"retryPolicy": 3}, KNOWN, ALIASES) == {"policy": 3}


@pytest.mark.parametrize(
    "given",
    [{"maxRetries": 1, "max_retries": 1}, {"policy": 1, "retry_policy": 1}, {"policy": 1, "retryPolicy": 2}],
)
def test_14_two_spellings_of_one_name_are_a_mistake(given: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=r"are two spellings of '.*'; pass only '.*'"):
        own_names(given, KNOWN, ALIASES)


def test_14_a_name_of_our_own_is_never_an_alias() -> None:
    assert own_names({"max_retries": 1}, KNOWN, {"max_retries": "policy"}) == {"max_retries": 1}
