"""Groups and contexts: what shared, unwrapped or merely neighbouring errors prove, and what they do not."""

import pytest

from redrive.errors import BreakerOpenError
from redrive.model.failure import Category
from redrive.policy.classify import classify


class OwnError(Exception):
    """Known to no rule."""


def raised(first: Exception, then: Exception) -> Exception:
    """`then`, raised while `first` was being handled."""
    with pytest.raises(type(then)) as caught:
        try:
            raise first
        except type(first):
            raise then  # noqa: B904 - the implicit context is what is tested
    return caught.value


def test_a_member_taken_out_of_its_group_is_still_itself() -> None:
    group = ExceptionGroup("two", [OwnError("order 17 failed")])
    failure = classify(raised(group, group.exceptions[0]))
    assert (failure.rule, failure.message) == ("unknown", "order 17 failed")
    assert failure.error_type.endswith("OwnError")


def test_a_mere_context_does_not_prove_that_nothing_was_executed() -> None:
    failure = classify(raised(ConnectionRefusedError("host A"), KeyError("after charging at host B")))
    assert failure.category is Category.NETWORK
    assert failure.may_have_executed


def test_a_bug_after_an_open_breaker_is_not_held() -> None:
    failure = classify(raised(BreakerOpenError("a", "open"), KeyError("bug in the fallback")))
    assert not failure.unavailable


def test_one_member_proves_nothing_about_the_others() -> None:
    assert classify(ExceptionGroup("group", [ConnectionRefusedError()])).may_have_executed


def test_a_final_member_is_found_behind_thousands() -> None:
    members = [*(ConnectionError() for _ in range(9_000)), ValueError()]
    assert not classify(ExceptionGroup("group", members)).retryable


def test_groups_that_share_their_members_are_looked_at_once() -> None:
    """Without that, this takes longer than the world has existed."""
    error: Exception = ConnectionError("x")
    for _ in range(50):
        error = ExceptionGroup("group", [error] * 100)
    assert classify(error).retryable


def test_members_that_share_their_cause_are_looked_at_once() -> None:
    error: Exception = ConnectionError("x")
    for _ in range(20):
        members = [OwnError(str(number)) for number in range(50)]
        for member in members:
            member.__cause__ = error
        error = ExceptionGroup("group", members)
    assert classify(error).retryable
