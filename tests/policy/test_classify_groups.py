"""Groups and contexts: what shared, unwrapped and unrelated errors prove, and what they don't."""

import pytest

from redrive.errors import BreakerOpenError, FinalError, HttpStatusError, RateLimitedError, RetryableError
from redrive.model.failure import Category
from redrive.policy import GATEWAY, GATEWAY_CODES, PRESETS
from redrive.policy.classify import Classifier, classify


class OwnError(Exception):
    """An error that no rule knows."""


def raised(first: Exception, then: Exception) -> Exception:
    """Raise `then` while `first` is being handled, and return it."""
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


def test_a_context_alone_does_not_prove_that_nothing_was_executed() -> None:
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
    """Visiting them repeatedly would take longer than the age of the universe."""
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


@pytest.mark.parametrize("status", [429, 425, 404])
def test_a_rejection_next_to_it_does_not_prove_that_nothing_was_executed(status: int) -> None:
    """429 from one host, then an unknown error at another: an unsafe call must not be repeated."""
    refusal = HttpStatusError("refused", status=status)
    assert not classify(refusal).may_have_executed
    assert classify(raised(refusal, OwnError("after charging elsewhere"))).may_have_executed
    assert classify(ExceptionGroup("two", [refusal, TimeoutError()])).may_have_executed


def test_a_group_waits_for_the_longest_hint() -> None:
    limits = [RateLimitedError(retry_after=5.0), RateLimitedError(retry_after=60.0)]
    assert classify(ExceptionGroup("two", limits)).retry_after == 60.0


def test_a_final_verdict_is_final_for_every_policy() -> None:
    for policy in PRESETS.values():
        assert not policy.retries(classify(FinalError("the card is stolen")))
    assert GATEWAY.retries(classify(OwnError()))


@pytest.mark.parametrize("status", [400, 404, 409, 425])
def test_p2_the_gateway_never_retries_a_4xx(status: int) -> None:
    failure = Classifier(public_codes=GATEWAY_CODES).classify(HttpStatusError("refused", status=status))
    assert failure.public_code == "GW_4XX"
    assert not GATEWAY.retries(failure)


def test_a_verdict_keeps_the_status_and_the_hint_of_its_cause() -> None:
    busy = HttpStatusError("busy", status=503, headers={"retry-after": "7"})
    plain, own = RetryableError("again"), RetryableError("again", retry_after=3.0)
    for error in (plain, own):
        error.__cause__ = busy
    assert (classify(plain).retry_after, classify(plain).http_status) == (7.0, 503)
    assert classify(own).retry_after == 3.0
