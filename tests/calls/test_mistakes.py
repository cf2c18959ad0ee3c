"""Invalid options are rejected at once, with the allowed ones, not at the first failure."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.cases import loop_over

from redrive import Category, Guard, HttpClient, RetryPolicy, Rule, call, retry
from redrive.calls import Dependency
from redrive.errors import InvalidValueError
from redrive.policy import Backoff, Classifier, Exponential, PublicCodes


@loop_over(
    ("options", "message"),
    [
        ({"effect": "bogus"}, "effect must be one of 'none', 'idempotent', 'unsafe', got 'bogus'"),
        ({"backoff": 2}, "backoff must be of type Backoff, got 2"),
        ({"backoff": Exponential(1.0)}, "backoff must be of type Backoff, got Exponential"),
        ({"policy": 3}, "policy must be of type RetryPolicy or Mapping, got 3"),
        ({"classifier": [Rule.for_status(423, Category.CONFLICT)]}, "classifier must be of type Classifier"),
        ({"dependency": 3}, "dependency must be of type Dependency or str or NoneType, got 3"),
        ({"timeout": -1}, "timeout must be a number of seconds from 0.001 to 31,536,000, got -1"),
        (
            {"timeout": timedelta(seconds=-1)},
            "timeout must be a number of seconds from 0.001 to 31,536,000, got -1.0",
        ),
        ({"timeout": float("inf")}, "timeout must be a number of seconds from 0.001 to 31,536,000, got inf"),
        ({"timeout": None}, "timeout must be a number"),
        ({"deadline": 0}, "deadline must be a number of seconds from 0.001"),
        (
            {"deadline": timedelta(0)},
            "deadline must be a number of seconds from 0.001 to 31,536,000, got 0.0",
        ),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 to 1,000,000, got 0"),
        ({"longest_wait": "1m"}, "longest_wait must be a number of seconds from 0"),
        (
            {"longest_wait": timedelta(days=366)},
            "longest_wait must be a number of seconds from 0 to 31,536,000, got 316",
        ),
        ({"policy": {"max_attemps": 3}}, "a policy of calls has no 'max_attemps'; it has max_attempts"),
        ({"policy": {"max_attempts": 0}}, "max_attempts must be a whole number from 1"),
        ({"policy": {"jitter": 0.5}}, "jitter must be of type bool, got 0.5"),
        ({"policy": {"base_delay_ms": -1}}, "base_delay_ms must be a number from 0"),
        ({"policy": {"maxAttempts": 3, "max_attempts": 4}}, "two spellings of 'max_attempts'"),
        ({"hard_timeout": 1}, "hard_timeout must be of type bool, got 1"),
        ({"hooks": ["print"]}, "is not callable"),
    ],
)
def test_of_a_guard(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        retry("work", **options)(print)
    assert message in str(caught.value)


def test_a_misspelled_option_is_answered_with_the_likeliest() -> None:
    with pytest.raises(TypeError, match="unknown option 'max_attemps'; did you mean 'max_attempts'"):
        retry("work", max_attemps=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        call("work", lambda attempt: 1, timeot=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'token'"):
        HttpClient("http://localhost", tokn="x")  # type: ignore[call-arg]


def test_a_word_is_accepted_for_its_member() -> None:
    tries = []

    @retry("pay", effect="unsafe")
    def pay() -> None:
        tries.append(1)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        pay()
    assert len(tries) == 1


def test_exception_classes_are_no_operation() -> None:
    with pytest.raises(InvalidValueError, match="retry takes no exception classes"):
        retry(ValueError)


@loop_over(
    "make",
    [
        lambda: Classifier([KeyError]),  # type: ignore[list-item]
        lambda: Classifier(unknown="sometimes"),  # type: ignore[arg-type]
        lambda: Classifier(public_codes={}),  # type: ignore[arg-type]
        lambda: Rule.for_type(KeyError, "oops"),  # type: ignore[arg-type]
        lambda: Rule.for_type((KeyError, ValueError), Category.TIMEOUT),  # type: ignore[arg-type]
        lambda: Rule.for_status("423", Category.TIMEOUT),  # type: ignore[arg-type]
        lambda: Rule.for_status(42, Category.TIMEOUT),
        lambda: Rule.when("x", "not a function", Category.TIMEOUT),  # type: ignore[arg-type]
        lambda: PublicCodes(by_category={"timout": "T"}),  # type: ignore[dict-item]
        lambda: Backoff(5),  # type: ignore[arg-type]
        lambda: Backoff(Exponential(1.0), jitter=0.5),  # type: ignore[arg-type]
        lambda: RetryPolicy(max_attempts=3, backoff=Exponential(1.0)),  # type: ignore[arg-type]
    ],
)
def test_of_a_policy(make: Any) -> None:
    with pytest.raises(InvalidValueError):
        make()


def test_words_for_categories_are_taken() -> None:
    rule = Rule.for_type(KeyError, "timeout", "retryable")  # type: ignore[arg-type]
    failure = Classifier([rule], public_codes=PublicCodes(by_category={Category.TIMEOUT: "LATE"})).classify(
        KeyError()
    )
    assert (failure.category, failure.retryable, failure.public_code) == (Category.TIMEOUT, True, "LATE")


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://host", "http://", "http://user:pw@host", "http://host?a=1", "/path", None],
)
def test_of_a_base_url(url: Any) -> None:
    with pytest.raises(InvalidValueError, match="base_url"):
        HttpClient(url)


def test_of_a_client_at_once() -> None:
    with pytest.raises(InvalidValueError, match="timeout"):
        HttpClient("http://localhost", timeout=-2)


@pytest.mark.parametrize("path", ["http://other/x", "//other/x", "/../x", "a/../../x"])
def test_a_path_stays_under_its_base(path: str) -> None:
    with HttpClient("http://localhost/api/v1") as client, pytest.raises(InvalidValueError, match="path"):
        client.request("GET", path)


def test_objects_have_a_useful_representation() -> None:
    assert repr(Guard("charge")) == "<Guard of 'charge': policy call, at most 3 attempts>"
    with HttpClient("http://localhost/api") as client:
        assert repr(client) == "<HttpClient of http://localhost/api>"


async def test_an_awaitable_from_a_sync_function_is_rejected_and_does_not_count() -> None:
    """It would fail after the guard has finished."""
    shared = Dependency("shop")

    async def later() -> None: ...

    for work in (lambda attempt: later(), lambda attempt: asyncio.get_running_loop().create_future()):
        with pytest.raises(InvalidValueError, match="'work' returned an awaitable"):
            Guard("work", dependency=shared).call(work)
    assert shared.snapshot().calls == 0
