"""Classification without a client: statuses, rules, public codes, chains, groups, hints, hostile errors.

W5 (three questions), D1 (error classes), G3 (what is retried), G4 (language models), P1 (public codes). Every
exception, however it behaves, gives a failure that can be stored and shown.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from enum import Enum, IntEnum
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import httpx
import pydantic
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.cases import loop_over
from tests.misbehaving import Behavior, MisbehavingServer, answer, answer_json

from redrive.errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    DeferredError,
    FinalError,
    HttpContentError,
    HttpStatusError,
    InvalidValueError,
    RateLimitedError,
    RetryableError,
    UnavailableError,
    VerdictError,
)
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy.classify import Classifier, Rule, classify
from redrive.policy.exception import MAX_NAME_LENGTH, MAX_TEXT_LENGTH
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.public_code import CATEGORY_CODES, GATEWAY_CODES, PublicCodes
from redrive.policy.retry_after import MAX_HINT_SECONDS, parse_milliseconds, parse_retry_after

NOW = 1_750_000_000.0


def assert_well_formed(failure: Failure) -> None:
    """Check everything that later parts rely on: exact types, limits, a public message of one line."""
    assert type(failure) is Failure
    assert type(failure.category) is Category
    assert type(failure.error_class) is ErrorClass
    assert type(failure.delivery) is Delivery
    assert type(failure.unavailable) is bool
    for text in (failure.rule, failure.error_type, failure.public_code, failure.public_message):
        assert type(text) is str
        assert text
        assert len(text) <= MAX_NAME_LENGTH
    assert type(failure.message) is str
    assert len(failure.message) <= MAX_TEXT_LENGTH + 50
    assert failure.http_status is None or type(failure.http_status) is int
    assert failure.http_status is None or 100 <= failure.http_status <= 599
    assert failure.retry_after is None or type(failure.retry_after) is float
    assert failure.retry_after is None or 0 <= failure.retry_after <= MAX_HINT_SECONDS
    assert_fit_for_the_public(failure.public_message)


def assert_fit_for_the_public(message: str) -> None:
    """Check P1: one line, no traceback, no path."""
    assert message.splitlines() == [message]
    assert "/" not in message
    assert "\\" not in message
    assert "Traceback" not in message


class Carrier(Exception):
    """An application's exception with the given attributes."""

    def __init__(self, message: str = "", **attributes: object) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)


# --- statuses (G3) --------------------------------------------------------------------------------

RETRIED = {408, 425, 429, 500, 502, 503, 504}
NOT_RETRIED = {400, 401, 403, 404}
FINAL_AMONG_THE_5XX = {501, 505, 511}

CARRIERS: dict[str, Callable[[int], BaseException]] = {
    "status_code": lambda status: Carrier(status_code=status),
    "status": lambda status: Carrier(status=status),
    "response.status_code": lambda status: Carrier(response=SimpleNamespace(status_code=status)),
    "response.status": lambda status: Carrier(response=SimpleNamespace(status=status)),
    "ResponseMetadata": lambda status: Carrier(
        response={"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {}}
    ),
    "HttpStatusError": lambda status: HttpStatusError("no", status=status),
}

every_carrier = pytest.mark.parametrize("carry", CARRIERS.values(), ids=CARRIERS)


@every_carrier
@pytest.mark.parametrize("status", sorted(RETRIED))
def test_status_that_is_retried(carry: Callable[[int], BaseException], status: int) -> None:
    """G3."""
    failure = classify(carry(status))
    assert failure.retryable
    assert failure.http_status == status
    assert failure.delivery is Delivery.SEEN


@every_carrier
@pytest.mark.parametrize("status", sorted(NOT_RETRIED))
def test_status_that_is_not_retried(carry: Callable[[int], BaseException], status: int) -> None:
    """G3."""
    failure = classify(carry(status))
    assert failure.error_class is ErrorClass.FINAL
    assert failure.http_status == status
    assert not failure.may_have_executed


def test_every_other_status() -> None:
    """W5: 5xx is the provider's fault and passes, 4xx is the caller's and stays; exceptions are listed."""
    retried = {status for status in range(400, 600) if classify(Carrier(status_code=status)).retryable}
    assert retried == {408, 425, 429} | (set(range(500, 600)) - FINAL_AMONG_THE_5XX)


def test_status_of_success_is_ignored() -> None:
    for status in range(100, 400):
        failure = classify(Carrier(status_code=status))
        assert (failure.category, failure.http_status) == (Category.UNKNOWN, status)


def test_rate_limited_is_a_separate_class() -> None:
    """D1: only 429 is rate-limited; a 503 with a hint is a counted failure."""
    classes = {status: classify(Carrier(status_code=status)).error_class for status in range(400, 600)}
    assert [status for status, found in classes.items() if found is ErrorClass.RATE_LIMITED] == [429]


class Answer(IntEnum):
    BUSY = 503


@pytest.mark.parametrize("status", [HTTPStatus.SERVICE_UNAVAILABLE, Answer.BUSY])
def test_status_may_be_an_enum(status: int) -> None:
    failure = classify(Carrier(status_code=status))
    assert failure.category is Category.PROVIDER_5XX
    assert type(failure.http_status) is int


@loop_over("junk", [True, 10**30, -503, 0, 99, 600, "503", b"503", math.nan, math.inf, 503.0, None, [503]])
def test_invalid_status_is_ignored(junk: object) -> None:
    failure = classify(Carrier(status_code=junk, status=junk, response=SimpleNamespace(status_code=junk)))
    assert (failure.category, failure.http_status) == (Category.UNKNOWN, None)


def test_the_first_usable_status_counts() -> None:
    error = Carrier(status_code="busy", status=True, response=SimpleNamespace(status_code=503))
    assert classify(error).http_status == 503


# --- the three questions and the categories (W5, D1, M4) ------------------------------------------

KNOWN: list[tuple[BaseException, Category]] = [
    (TimeoutError(), Category.TIMEOUT),
    (AttemptTimeoutError(), Category.TIMEOUT),
    (subprocess.TimeoutExpired("command", 1), Category.TIMEOUT),
    (ConnectionResetError(), Category.NETWORK),
    (BrokenPipeError(), Category.NETWORK),
    (OSError(errno.EHOSTUNREACH, "no route"), Category.NETWORK),
    (asyncio.IncompleteReadError(b"", 5), Category.NETWORK),
    (BreakerOpenError("gateway", "open"), Category.NETWORK),
    (Carrier(status_code=502), Category.PROVIDER_5XX),
    (Carrier(status_code=429), Category.RATE_LIMIT),
    (MemoryError(), Category.RESOURCE),
    (OSError(errno.ENOSPC, "no space left"), Category.RESOURCE),
    (OSError(errno.EMFILE, "too many open files"), Category.RESOURCE),
    (ValueError(), Category.VALIDATION),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Category.VALIDATION),
    (json.JSONDecodeError("bad", "{", 0), Category.VALIDATION),
    (InvalidValueError("max_attempts must be at least 1"), Category.VALIDATION),
    (HttpContentError("not JSON"), Category.VALIDATION),
    (PermissionError(errno.EACCES, "denied"), Category.PERMISSION),
    (ModuleNotFoundError("no module"), Category.MISSING_CONFIG),
    (Carrier(status_code=404), Category.PROVIDER_4XX),
    (Carrier(status_code=409), Category.CONFLICT),
    (asyncio.CancelledError(), Category.CANCELLED),
    (concurrent.futures.CancelledError(), Category.CANCELLED),
    (KeyboardInterrupt(), Category.CANCELLED),
    (SystemExit(1), Category.CANCELLED),
    (RuntimeError("?"), Category.UNKNOWN),
    (KeyError("?"), Category.UNKNOWN),
    (FileNotFoundError(errno.ENOENT, "no such file"), Category.UNKNOWN),
    (Exception(), Category.UNKNOWN),
    (BaseException(), Category.UNKNOWN),
]
RETRIABLE = {
    Category.TIMEOUT,
    Category.NETWORK,
    Category.PROVIDER_5XX,
    Category.RATE_LIMIT,
    Category.RESOURCE,
}


@loop_over(("error", "category"), KNOWN)
def test_three_questions_agree(error: BaseException, category: Category) -> None:
    """W5: timeouts, network errors, 5xx and rate limits are retriable; validation and the rest are not."""
    classifier = Classifier()
    failure = classifier.classify(error)
    assert_well_formed(failure)
    assert classifier.category(error) is failure.category is category
    assert classifier.is_retriable(error) is failure.retryable is (category in RETRIABLE)
    assert classify(error) == failure


def test_every_category_is_met_above() -> None:
    assert {category for _, category in KNOWN} == set(Category)


def test_categories_not_named_retriable_are_final() -> None:
    """D1, W5: a new category is final until a developer decides otherwise."""
    assert set(CLASS_OF_CATEGORY) == RETRIABLE


@pytest.mark.parametrize(
    "error", [RuntimeError("?"), KeyError("?"), AssertionError(), Carrier(status_code=302)]
)
def test_unknown_is_final_unless_the_application_says_otherwise(error: BaseException) -> None:
    """W5, P2."""
    assert classify(error).error_class is ErrorClass.FINAL
    assert Classifier(unknown=ErrorClass.RETRYABLE).classify(error).error_class is ErrorClass.RETRYABLE
    rule = Rule.for_type(type(error), Category.RESOURCE)
    assert Classifier([rule]).classify(error).error_class is ErrorClass.RETRYABLE


def test_unknown_retryable_changes_no_known_category() -> None:
    """P2: GW_4XX is never retried, whatever the policy does with unknown errors."""
    classifier = Classifier(unknown=ErrorClass.RETRYABLE)
    changed = {
        category
        for error, category in KNOWN
        if classifier.is_retriable(error) is not Classifier().is_retriable(error)
    }
    assert changed == {Category.UNKNOWN}


# --- rules of the application ---------------------------------------------------------------------


class OutOfStock(Exception):
    pass


class OutOfStockToday(OutOfStock):
    pass


RETRY_STOCK = Rule.for_type(OutOfStock, Category.RESOURCE, public_code="OUT_OF_STOCK")


def test_rule_by_type_takes_subclasses_and_gives_its_code() -> None:
    failure = Classifier([RETRY_STOCK]).classify(OutOfStockToday("none left"))
    assert failure.category is Category.RESOURCE
    assert failure.error_class is ErrorClass.RETRYABLE
    assert failure.public_code == "OUT_OF_STOCK"
    assert failure.rule == "application: OutOfStock"
    assert failure.error_type.endswith("OutOfStockToday")


def test_rule_by_status() -> None:
    classifier = Classifier([Rule.for_status(404, Category.RESOURCE, ErrorClass.RETRYABLE)])
    failure = classifier.classify(Carrier(status_code=404))
    assert (failure.category, failure.retryable, failure.http_status) == (Category.RESOURCE, True, 404)
    assert failure.delivery is Delivery.SEEN
    assert not classifier.is_retriable(Carrier(status_code=410))


def test_rule_by_predicate() -> None:
    rule = Rule.when("flaky vendor", lambda error: "try later" in str(error), Category.PROVIDER_5XX)
    classifier = Classifier([rule])
    assert classifier.classify(ValueError("please try later")).rule == "application: flaky vendor"
    assert classifier.category(ValueError("never")) is Category.VALIDATION


def test_rule_may_set_the_class_apart_from_the_category() -> None:
    """D1."""
    rule = Rule.for_type(OutOfStock, Category.CONFLICT, ErrorClass.RATE_LIMITED)
    failure = Classifier([rule]).classify(OutOfStock())
    assert (failure.category, failure.error_class) == (Category.CONFLICT, ErrorClass.RATE_LIMITED)


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError(), Carrier(status_code=429), FinalError("no"), BreakerOpenError("gateway", "open")],
)
def test_rule_goes_before_everything_built_in(error: Exception) -> None:
    rule = Rule.for_type(type(error), Category.CONFLICT, ErrorClass.RETRYABLE)
    failure = Classifier([rule]).classify(error)
    assert (failure.category, failure.error_class) == (Category.CONFLICT, ErrorClass.RETRYABLE)


def test_first_rule_wins() -> None:
    first = Rule.for_type(OutOfStockToday, Category.RESOURCE)
    second = Rule.for_type(OutOfStock, Category.VALIDATION)
    assert Classifier([first, second]).category(OutOfStockToday()) is Category.RESOURCE
    assert Classifier([second, first]).category(OutOfStockToday()) is Category.VALIDATION


def test_rule_reaches_into_wrapped_errors() -> None:
    """The rule for the cause applies although the wrapper is known, and the outermost match wins."""
    wrapper = ValueError("while ordering")
    wrapper.__cause__ = OutOfStock("none left")
    assert Classifier([RETRY_STOCK]).category(wrapper) is Category.RESOURCE
    for_wrapper = Rule.for_type(ValueError, Category.CONFLICT)
    assert Classifier([RETRY_STOCK, for_wrapper]).category(wrapper) is Category.CONFLICT


def test_rule_for_a_member_of_a_group() -> None:
    group = ExceptionGroup("two", [OutOfStock(), ConnectionResetError()])
    assert Classifier([RETRY_STOCK]).is_retriable(group)
    assert not Classifier().is_retriable(group)


@pytest.mark.parametrize("kind", [Exception, SystemExit, KeyboardInterrupt, RecursionError, GeneratorExit])
def test_predicate_that_raises_does_not_apply(kind: type[BaseException]) -> None:
    def predicate(_: BaseException) -> bool:
        raise kind

    rules = [Rule.when("broken", predicate, Category.CONFLICT), RETRY_STOCK]
    assert Classifier(rules).category(OutOfStock()) is Category.RESOURCE
    assert Classifier(rules).category(ValueError()) is Category.VALIDATION


def test_predicate_that_answers_with_something_else() -> None:
    class Undecided:
        def __bool__(self) -> bool:
            raise RuntimeError

    def category_when(given: Any) -> Category:
        rule = Rule.when("odd", lambda _: given, Category.CONFLICT)
        return Classifier([rule]).category(OutOfStock())

    assert category_when("yes") is Category.CONFLICT
    assert category_when([]) is Category.UNKNOWN
    assert category_when(Undecided()) is Category.UNKNOWN


# --- errors that state their own class -------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (FinalError("no"), ErrorClass.FINAL),
        (RetryableError("again"), ErrorClass.RETRYABLE),
        (RateLimitedError("slowly"), ErrorClass.RATE_LIMITED),
        (VerdictError("?"), ErrorClass.RETRYABLE),
    ],
)
def test_verdict(error: VerdictError, error_class: ErrorClass) -> None:
    """D1."""
    assert classify(error).error_class is error_class


def test_verdict_goes_before_the_cause_but_keeps_its_category() -> None:
    for verdict, retryable in ((FinalError("no"), False), (RetryableError("again"), True)):
        for cause, category in (
            (ConnectionResetError(), Category.NETWORK),
            (ValueError(), Category.VALIDATION),
        ):
            verdict.__cause__ = cause
            failure = classify(verdict)
            assert (failure.category, failure.retryable) == (category, retryable)


def test_outermost_verdict_wins() -> None:
    verdict = FinalError("no")
    verdict.__cause__ = RetryableError("again")
    verdict.__cause__.__cause__ = TimeoutError()
    assert (classify(verdict).category, classify(verdict).retryable) == (Category.TIMEOUT, False)


@loop_over(
    ("given", "expected"),
    [
        (30, 30.0),
        (0, 0.0),
        (2.5, 2.5),
        (None, None),
        (-1, None),
        (-(10**400), None),
        (10**400, MAX_HINT_SECONDS),
        (math.nan, None),
        (math.inf, MAX_HINT_SECONDS),
        (-math.inf, None),
        (True, None),
    ],
)
def test_hint_of_a_verdict(given: Any, expected: float | None) -> None:
    """D4: a hint is used as given, within limits."""
    for kind in (RateLimitedError, RetryableError):
        assert classify(kind("later", retry_after=given)).retry_after == expected


def test_hint_on_any_exception_with_that_attribute() -> None:
    assert classify(Carrier(retry_after=4)).retry_after == 4.0


@pytest.mark.parametrize("kind", [UnavailableError, BreakerOpenError])
def test_unavailable_is_distinguished_from_a_failure(kind: type[UnavailableError]) -> None:
    """G3: the dependency was never called, so nothing can have happened there."""
    failure = classify(kind("gateway", "not asked", retry_after=9))
    assert failure.unavailable
    assert failure.retryable
    assert failure.retry_after == 9.0
    assert failure.delivery is Delivery.NEVER_SEEN
    assert not failure.may_have_executed
    assert not classify(ConnectionRefusedError()).unavailable


def test_unavailable_below_another_error() -> None:
    wrapper = RuntimeError("could not order")
    wrapper.__cause__ = BreakerOpenError("gateway", "open", retry_after=9)
    failure = classify(wrapper)
    assert (failure.unavailable, failure.retry_after) == (True, 9.0)


@pytest.mark.parametrize(
    ("cause", "category", "error_class"),
    [
        (HttpStatusError("busy", status=503), Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
        (
            HttpStatusError("busy", status=429, headers={"Retry-After": "7"}),
            Category.RATE_LIMIT,
            ErrorClass.RATE_LIMITED,
        ),
        (ConnectionResetError(), Category.NETWORK, ErrorClass.RETRYABLE),
        (None, Category.RATE_LIMIT, ErrorClass.RATE_LIMITED),
    ],
)
def test_deferred_call_keeps_its_own_wait(
    cause: Exception | None, category: Category, error_class: ErrorClass
) -> None:
    """D4: a call that is deferred by an hour waits an hour, whatever the first response said."""
    error = DeferredError("come back later", retry_after=3600)
    error.__cause__ = cause
    failure = classify(error, now=NOW)
    assert (failure.category, failure.error_class, failure.retry_after) == (category, error_class, 3600.0)


# --- public codes (P1) ----------------------------------------------------------------------------


class NotPdf(Exception):
    pass


class NotReady(Exception):
    pass


class InvalidMapping(KeyError):
    pass


class Shape(pydantic.BaseModel):
    pages: int


def shape_error() -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as caught:
        Shape.model_validate({"pages": "many"})
    return caught.value


GATEWAY = Classifier(
    [
        Rule.for_type(NotPdf, Category.VALIDATION, public_code="NOT_PDF"),
        Rule.for_type(NotReady, Category.CONFLICT, ErrorClass.RETRYABLE, public_code="NOT_READY"),
        Rule.for_type(InvalidMapping, Category.VALIDATION),
    ],
    public_codes=GATEWAY_CODES,
    unknown=ErrorClass.RETRYABLE,
)

INTERNAL_TO_PUBLIC: list[tuple[BaseException, str]] = [
    (NotPdf("/srv/uploads/17.bin is no PDF"), "NOT_PDF"),
    (NotReady("job 17"), "NOT_READY"),
    (InvalidMapping("column 3"), "GW_4XX"),
    (json.JSONDecodeError("bad", "{", 0), "GW_4XX"),
    (ValueError("negative page"), "GW_4XX"),
    (shape_error(), "GW_4XX"),
    (Carrier(status_code=400), "GW_4XX"),
    (Carrier(status_code=404), "GW_4XX"),
    (Carrier(status_code=422), "GW_4XX"),
    (Carrier(status_code=413), "TOO_LARGE"),
    (Carrier(status_code=410), "EXPIRED"),
    (Carrier(status_code=401), "FORBIDDEN"),
    (Carrier(status_code=403), "FORBIDDEN"),
    (Carrier(status_code=500), "GW_5XX"),
    (Carrier(status_code=503), "GW_5XX"),
    (Carrier(status_code=429), "GW_5XX"),
    (BreakerOpenError("gateway", "open"), "GW_5XX"),
    (ConnectionRefusedError(), "GW_5XX"),
    (ConnectionResetError(), "GW_5XX"),
    (TimeoutError(), "GW_TIMEOUT"),
    (Carrier(status_code=408), "GW_TIMEOUT"),
    (OSError(errno.ENOSPC, "No space left on device: '/srv/results'"), "IO_ERROR"),
    (MemoryError(), "IO_ERROR"),
    (RuntimeError("?"), "UNKNOWN"),
]


@loop_over(("error", "code"), INTERNAL_TO_PUBLIC)
def test_internal_error_to_public_code(error: BaseException, code: str) -> None:
    """P1: the mapping that an application defines."""
    failure = GATEWAY.classify(error)
    assert failure.public_code == code
    assert failure.public_message == GATEWAY_CODES.messages[code]
    assert_well_formed(failure)


def test_every_public_code_is_reached_and_retried_as_agreed() -> None:
    """P1, P2: GW_5XX, GW_TIMEOUT, IO_ERROR and UNKNOWN are retried, GW_4XX never."""
    retried: dict[str, set[bool]] = {}
    for error, code in INTERNAL_TO_PUBLIC:
        retried.setdefault(code, set()).add(GATEWAY.is_retriable(error))
    assert set(retried) == set(GATEWAY_CODES.messages)
    for code in ("GW_5XX", "GW_TIMEOUT", "IO_ERROR", "UNKNOWN", "NOT_READY"):
        assert retried[code] == {True}
    for code in ("GW_4XX", "NOT_PDF", "TOO_LARGE", "EXPIRED", "FORBIDDEN"):
        assert retried[code] == {False}


def test_without_a_table_the_code_is_the_category() -> None:
    for error, category in KNOWN:
        assert classify(error).public_code == category.name


def test_code_of_a_rule_without_a_message_gets_the_sentence_of_its_category() -> None:
    failure = Classifier([RETRY_STOCK]).classify(OutOfStock("/etc/stock"))
    assert failure.public_code == "OUT_OF_STOCK"
    assert failure.public_message == CATEGORY_CODES.message("?", Category.RESOURCE)


@loop_over(
    "message", ["", "two\nlines", "ends\n", "two\rlines", "\n", "a\u2028b", "a\x0bb", "a\x85b", "a\r\n"]
)
def test_public_message_of_more_or_less_than_one_line_is_refused(message: str) -> None:
    """P1."""
    with pytest.raises(InvalidValueError, match="one line"):
        PublicCodes(messages={"CODE": message})


TRACE = 'Traceback (most recent call last):\n  File "/srv/app/main.py", line 3, in run\nValueError: no'
hostile_text = st.one_of(
    st.text(),
    st.sampled_from(
        [TRACE, "/etc/passwd", "C:\\secrets\\key.pem", "a\nb\r\nc", "\x00", "\ud800", "\u2028", "x" * 9999]
    ),
    st.builds(lambda start, end: f"{start}\n{TRACE}\n{end}", st.text(), st.text()),
)


@settings(deadline=None)
@given(message=hostile_text, index=st.integers(0, len(KNOWN) - 1), status=st.integers(100, 599))
def test_public_message_reveals_nothing_of_the_error(message: str, index: int, status: int) -> None:
    """P1: for every failure, whatever its message contains."""
    kind = type(KNOWN[index][0])
    errors: list[BaseException] = [Carrier(message, status_code=status), RateLimitedError(message)]
    try:
        errors.append(kind(message))
    except TypeError:
        errors.append(KNOWN[index][0])
    for error in errors:
        for classifier in (Classifier(), GATEWAY):
            failure = classifier.classify(error)
            assert_well_formed(failure)
            assert failure.public_message in PUBLIC_MESSAGES


PUBLIC_MESSAGES = {CATEGORY_CODES.message("?", category) for category in Category} | set(
    GATEWAY_CODES.messages.values()
)


# --- language models (G4) -------------------------------------------------------------------------

QUESTION: Any = [{"role": "user", "content": "?"}]


def ask_openai(url: str, **options: Any) -> object:
    import openai

    with openai.OpenAI(base_url=url, api_key="key", max_retries=0) as client:
        result = client.chat.completions.create(model="model", messages=QUESTION, **options)
        return list(result) if options.get("stream") else result


def ask_openai_for_a_shape(url: str) -> object:
    import openai

    with openai.OpenAI(base_url=url, api_key="key", max_retries=0) as client:
        return client.chat.completions.parse(model="model", messages=QUESTION, response_format=Shape)


def ask_strict_openai(url: str) -> object:
    import openai

    with openai.OpenAI(
        base_url=url, api_key="key", max_retries=0, _strict_response_validation=True
    ) as client:
        return client.chat.completions.create(model="model", messages=QUESTION)


def ask_anthropic(url: str, **options: Any) -> object:
    import anthropic

    with anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client:
        result = client.messages.create(model="model", max_tokens=5, messages=QUESTION, **options)
        return list(result) if options.get("stream") else result


def openai_stream(code: str) -> Behavior:
    event = {"error": {"message": "no", "type": code, "code": code}}
    return answer(200, {"Content-Type": "text/event-stream"}, f"data: {json.dumps(event)}\n\n")


def anthropic_stream(kind: str) -> Behavior:
    event = {"type": "error", "error": {"type": kind, "message": "no"}}
    return answer(200, {"Content-Type": "text/event-stream"}, f"event: error\ndata: {json.dumps(event)}\n\n")


def openai_refusal(status: int, code: str) -> Behavior:
    return answer_json({"error": {"message": "no", "type": code, "code": code}}, status)


def completion(content: str, reason: str = "stop") -> Behavior:
    choice = {
        "index": 0,
        "finish_reason": reason,
        "message": {"role": "assistant", "content": content, "refusal": None},
    }
    return answer_json(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "model", "choices": [choice]}
    )


def failure_of(ask: Callable[[], object]) -> Failure:
    with pytest.raises(Exception) as caught:
        ask()
    failure = classify(caught.value, now=NOW)
    assert_well_formed(failure)
    return failure


CONTENT: dict[str, tuple[Callable[[str], object], Behavior]] = {
    "content filter": (ask_openai_for_a_shape, completion("", "content_filter")),
    "too long for the shape": (ask_openai_for_a_shape, completion('{"pages": ', "length")),
    "not the shape": (ask_openai_for_a_shape, completion('{"pages": "many"}')),
    "not JSON": (ask_openai_for_a_shape, completion("I am afraid I cannot do that.")),
    "unexpected answer": (ask_strict_openai, answer(200, {"Content-Type": "text/html"}, "<html>")),
    "content policy": (ask_openai, openai_refusal(400, "content_policy_violation")),
    "too many words": (ask_openai, openai_refusal(400, "context_length_exceeded")),
    "invalid request": (ask_anthropic, answer_json({"error": {"type": "invalid_request_error"}}, 400)),
}


@loop_over("name", CONTENT)
def test_content_and_schema_errors_of_a_language_model_are_final(
    name: str, server: MisbehavingServer
) -> None:
    """G4: the same question gets a similar answer. And the model was called: that may have cost money."""
    ask, behavior = CONTENT[name]
    server.otherwise(behavior)
    failure = failure_of(lambda: ask(server.url))
    assert (failure.category, failure.error_class) == (Category.VALIDATION, ErrorClass.FINAL)
    assert failure.delivery is not Delivery.NEVER_SEEN


STREAMED: dict[str, tuple[Category, ErrorClass]] = {
    "server_error": (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    "api_error": (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    "overloaded_error": (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    "timeout_error": (Category.TIMEOUT, ErrorClass.RETRYABLE),
    "rate_limit_error": (Category.RATE_LIMIT, ErrorClass.RATE_LIMITED),
    "rate_limit_exceeded": (Category.RATE_LIMIT, ErrorClass.RATE_LIMITED),
    "authentication_error": (Category.PERMISSION, ErrorClass.FINAL),
    "permission_error": (Category.PERMISSION, ErrorClass.FINAL),
    "invalid_request_error": (Category.VALIDATION, ErrorClass.FINAL),
    "content_filter": (Category.VALIDATION, ErrorClass.FINAL),
    "context_length_exceeded": (Category.VALIDATION, ErrorClass.FINAL),
    "not_found_error": (Category.PROVIDER_4XX, ErrorClass.FINAL),
    "request_too_large": (Category.PROVIDER_4XX, ErrorClass.FINAL),
    "billing_error": (Category.RESOURCE, ErrorClass.FINAL),
    "something_new": (Category.UNKNOWN, ErrorClass.FINAL),
}


@pytest.mark.parametrize(
    ("ask", "stream"),
    [(ask_openai, openai_stream), (ask_anthropic, anthropic_stream)],
    ids=["openai", "anthropic"],
)
def test_error_in_the_middle_of_a_stream(
    ask: Callable[..., object], stream: Callable[[str], Behavior], server: MisbehavingServer
) -> None:
    """G4: by then the status was 200; the event contains the error."""
    found = {}
    for name in STREAMED:
        server.otherwise(stream(name))
        failure = failure_of(lambda: ask(server.url, stream=True))
        found[name] = (failure.category, failure.error_class)
    assert found == STREAMED


@loop_over("code", ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"])
def test_spent_quota_is_final_though_the_status_is_429(code: str, server: MisbehavingServer) -> None:
    """G4, D1: waiting doesn't restore the quota."""
    server.otherwise(openai_refusal(429, code))
    failure = failure_of(lambda: ask_openai(server.url))
    assert (failure.category, failure.error_class) == (Category.RESOURCE, ErrorClass.FINAL)
    assert failure.http_status == 429


def test_ordinary_rate_limit_of_a_language_model(server: MisbehavingServer) -> None:
    """G4, D4."""
    server.otherwise(openai_refusal(429, "rate_limit_exceeded"))
    failure = failure_of(lambda: ask_openai(server.url))
    assert failure.error_class is ErrorClass.RATE_LIMITED


# --- causes and contexts --------------------------------------------------------------------------


def caught(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raise_from_cause() -> None:
    try:
        raise ConnectionResetError
    except ConnectionResetError as error:
        raise RuntimeError("wrapped") from error


def raise_in_context() -> None:
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        raise RuntimeError("while handling it")  # noqa: B904


def raise_from_none() -> None:
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        raise RuntimeError("unrelated") from None


def raise_from_another() -> None:
    try:
        raise ConnectionResetError
    except ConnectionResetError:
        raise RuntimeError("wrapped") from ValueError("the true cause")


@pytest.mark.parametrize(
    ("action", "category"),
    [
        (raise_from_cause, Category.NETWORK),
        (raise_in_context, Category.NETWORK),
        (raise_from_none, Category.UNKNOWN),
        (raise_from_another, Category.VALIDATION),
    ],
)
def test_wrapped_error(action: Callable[[], None], category: Category) -> None:
    """The cause of an error decides, unless the code says that the two are unrelated."""
    failure = classify(caught(action))
    assert failure.category is category
    assert failure.error_type == "RuntimeError"


def test_known_error_is_not_overruled_by_its_cause() -> None:
    error = ValueError("bad answer")
    error.__cause__ = ConnectionResetError()
    assert classify(error).category is Category.VALIDATION


def test_wrapped_hint_and_status_are_found() -> None:
    """D4: a rate limit keeps its hint when the application wraps it."""
    wrapper = RuntimeError("could not order")
    wrapper.__cause__ = HttpStatusError("busy", status=429, headers={"Retry-After": "12"})
    failure = classify(wrapper)
    assert (failure.error_class, failure.http_status, failure.retry_after) == (
        ErrorClass.RATE_LIMITED,
        429,
        12.0,
    )


def test_error_given_as_reason_or_first_argument() -> None:
    assert classify(RuntimeError(TimeoutError())).category is Category.TIMEOUT
    assert classify(Carrier(reason=TimeoutError())).category is Category.TIMEOUT


def chain(length: int, innermost: BaseException, link: str = "__cause__") -> BaseException:
    error = innermost
    for _ in range(length):
        outer = RuntimeError("wrapped")
        setattr(outer, link, error)
        error = outer
    return error


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_long_chains(link: str) -> None:
    """The classifier finds causes within its limit; ten thousand links cause no trouble."""
    assert classify(chain(20, TimeoutError(), link)).category is Category.TIMEOUT
    assert classify(chain(10_000, TimeoutError(), link)).category is Category.UNKNOWN


@loop_over("link", ["__cause__", "__context__", "reason"])
@loop_over("kind", [RuntimeError, RetryableError, FinalError, Carrier])
def test_chain_with_a_cycle(link: str, kind: type[Exception]) -> None:
    errors = [kind("a"), kind("b"), kind("c")]
    for index, error in enumerate(errors):
        setattr(error, link, errors[index - 1])
    alone = kind("alone")
    setattr(alone, link, alone)
    for error in (*errors, alone):
        failure = classify(error)
        assert_well_formed(failure)
        assert failure.message == str(error)
        assert failure.retryable is (kind is RetryableError)


def test_delivery_of_a_wrapper_follows_the_innermost_certainty() -> None:
    """A lost connection caused by a refused one was never seen; a context proves nothing."""
    lost = ConnectionError("lost")
    lost.__cause__ = ConnectionRefusedError()
    assert classify(lost).delivery is Delivery.NEVER_SEEN
    lost = ConnectionError("lost")
    lost.__context__ = ConnectionRefusedError()
    assert classify(lost).delivery is Delivery.MAYBE_SEEN


# --- groups ---------------------------------------------------------------------------------------

FINAL, LIMITED, AGAIN, STOPPED = (
    ValueError("final"),
    RateLimitedError("later", retry_after=5),
    ConnectionResetError(),
    asyncio.CancelledError(),
)


@pytest.mark.parametrize(
    ("members", "category"),
    [
        ([AGAIN, FINAL, LIMITED], Category.VALIDATION),
        ([AGAIN, LIMITED], Category.RATE_LIMIT),
        ([STOPPED, AGAIN], Category.NETWORK),
        ([STOPPED], Category.CANCELLED),
        ([AGAIN, RuntimeError("?")], Category.UNKNOWN),
        ([AGAIN, AGAIN], Category.NETWORK),
    ],
)
def test_group_is_as_bad_as_its_worst_member(members: list[BaseException], category: Category) -> None:
    """D1: one final error decides, at any position and any depth."""
    for order in (members, members[::-1]):
        group = BaseExceptionGroup("group", order)
        nested = BaseExceptionGroup("outer", [AGAIN, BaseExceptionGroup("inner", [group])])
        assert classify(group).category is category
        assert classify(nested).category in (category, Category.NETWORK)
        if category not in (Category.CANCELLED, Category.NETWORK):
            assert classify(nested).category is category


def test_group_keeps_its_own_name_and_the_hint_of_its_member() -> None:
    failure = classify(BaseExceptionGroup("two tasks failed", [AGAIN, LIMITED]))
    assert failure.retry_after == 5.0
    assert failure.error_type == "ExceptionGroup"
    assert "two tasks failed" in failure.message


def test_group_inside_a_cause() -> None:
    error = RuntimeError("the batch failed")
    error.__cause__ = ExceptionGroup("group", [AGAIN])
    assert classify(error).category is Category.NETWORK
    error.__cause__ = ExceptionGroup("group", [AGAIN, FINAL])
    assert classify(error).category is Category.VALIDATION


def test_group_of_a_task_group() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(ConnectionResetError()))
            tasks.create_task(fail(TimeoutError()))

    assert classify(caught(lambda: asyncio.run(run()))).retryable


def test_groups_of_ten_thousand_and_groups_fifty_deep() -> None:
    many = ExceptionGroup("many", [FINAL, *[ConnectionResetError() for _ in range(9_999)]])
    assert classify(many).category is Category.VALIDATION
    assert_well_formed(classify(many))
    deep: Exception = TimeoutError()
    for _ in range(50):
        deep = ExceptionGroup("deep", [deep])
    assert classify(deep).category is Category.TIMEOUT


def test_group_of_impossible_depth_still_gives_a_failure() -> None:
    deep: Exception = TimeoutError()
    for _ in range(20_000):
        deep = ExceptionGroup("deep", [deep])
    try:
        assert_well_formed(classify(deep))
    finally:  # one at a time: freeing them all at once would recurse as deep
        while isinstance(deep, ExceptionGroup):
            deep = deep.exceptions[0]


def test_group_that_lies_about_its_members() -> None:
    class Lying(ExceptionGroup[Exception]):
        @property
        def exceptions(self) -> Any:
            raise SystemExit

    class Empty(ExceptionGroup[Exception]):
        exceptions: Any = ()

    class Odd(ExceptionGroup[Exception]):
        exceptions: Any = (1, None, "no error", AGAIN)

    assert classify(Lying("lying", [AGAIN])).category is Category.UNKNOWN
    assert classify(Empty("empty", [AGAIN])).category is Category.UNKNOWN
    assert classify(Odd("odd", [AGAIN])).category is Category.NETWORK


# --- Retry-After ----------------------------------------------------------------------------------

MOMENT = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@loop_over(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (b"120", 120.0),
        (120, 120.0),
        (1.5, 1.5),
        ("86401", 86_401.0),
        ("31536001", MAX_HINT_SECONDS),
        ("9" * 64, MAX_HINT_SECONDS),
        (10**400, MAX_HINT_SECONDS),
        (1e300, MAX_HINT_SECONDS),
        (math.inf, MAX_HINT_SECONDS),
        ("9" * 65, None),
        ("9" * 5_000_000, None),
        ("", None),
        ("   ", None),
        ("soon", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("1,5", None),
        ("1.2.3", None),
        (".", None),
        ("nan", None),
        ("inf", None),
        ("\u0661\u0662", None),
        ("\uff11\uff12", None),
        ("\u00b2", None),
        (b"\xff\xfe", None),
        (-1, None),
        (-0.5, None),
        (-(10**400), None),
        (math.nan, None),
        (-math.inf, None),
        (True, None),
        (None, None),
        ([5], None),
        ({"seconds": 5}, None),
        (5j, None),
        (object(), None),
    ],
)
def test_retry_after_in_seconds(value: object, expected: float | None) -> None:
    """D4."""
    found = parse_retry_after(value, now=MOMENT)
    assert found == expected
    assert found is None or type(found) is float


@pytest.mark.parametrize(
    "form",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
    ids=["IMF-fixdate", "RFC 850", "asctime"],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "XYZ-12"])
def test_retry_after_as_a_date_in_all_three_forms(
    form: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: every form means UTC, in any time zone of the worker."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_retry_after(form, now=MOMENT - 30) == 30.0
        assert parse_retry_after(form.encode(), now=MOMENT - 30) == 30.0
        assert parse_retry_after(form, now=MOMENT + 30) == 0.0
        assert parse_retry_after(form, now=MOMENT - 10**8) == MAX_HINT_SECONDS
        assert parse_retry_after(form, now=None) is None
    finally:
        monkeypatch.undo()
        time.tzset()


@loop_over(
    "text",
    [
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 99999 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "06 Nov",
        ", , ,",
        ":::",
        "Sun,",
        "Sun, 06 Nov 1994 08:49:37 +99999999999999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
    ],
)
def test_retry_after_as_something_like_a_date(text: str) -> None:
    found = parse_retry_after(text, now=MOMENT)
    assert found is None or 0 <= found <= MAX_HINT_SECONDS


date_like = st.lists(
    st.sampled_from(
        [
            "Sun",
            "Nov",
            "06",
            "1994",
            "08:49:37",
            "GMT",
            "+0000",
            "-9999",
            ",",
            ":",
            ".",
            "-",
            "0",
            "99999",
            "Jan",
            "EST",
            "a.m.",
            "08.49",
            "1994-11-06",
            "\x00",
        ]
    ),
    max_size=9,
).map(" ".join)
anything = st.one_of(
    st.text(),
    st.binary(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.integers()),
    date_like,
)


@settings(deadline=None)
@given(value=anything, now=st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)))
@example(value="Sun, 06 Nov 1994 08:49:37 GMT", now=-1e308)
def test_retry_after_is_a_reasonable_wait_or_nothing(value: object, now: float | None) -> None:
    """D4: never an exception, never negative, never more than a day."""
    for found in (parse_retry_after(value, now=now), parse_milliseconds(value)):
        assert found is None or (type(found) is float and 0 <= found <= MAX_HINT_SECONDS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1500", 1.5),
        ("0", 0.0),
        ("120000", 120.0),
        (1500, 1.5),
        ("31536000001", MAX_HINT_SECONDS),
        ("soon", None),
    ],
)
def test_retry_after_in_milliseconds(value: object, expected: float | None) -> None:
    assert parse_milliseconds(value) == expected


def test_a_date_is_no_number_of_milliseconds() -> None:
    headers = {"retry-after-ms": formatdate(NOW + 5, usegmt=True), "retry-after": "7"}
    assert classify(HttpStatusError("busy", status=429, headers=headers), now=NOW).retry_after == 7.0


@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_retry_after_in_a_plain_dictionary(name: str) -> None:
    for error in (
        Carrier(status_code=429, headers={name: "7"}),
        Carrier(response=SimpleNamespace(status_code=429, headers={name: "7"})),
        Carrier(response={"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {name: "7"}}}),
    ):
        assert classify(error).retry_after == 7.0


# --- hostile exceptions ---------------------------------------------------------------------------

RAISED: tuple[type[BaseException], ...] = (
    Exception,
    SystemExit,
    KeyboardInterrupt,
    RecursionError,
    GeneratorExit,
    StopIteration,
    AttributeError,
    MemoryError,
)
PROBED = [
    "status_code",
    "status",
    "response",
    "headers",
    "code",
    "type",
    "body",
    "sqlstate",
    "pgcode",
    "retry_after",
    "reason",
    "args",
    "errno",
    "smtp_code",
    "recipients",
    "sqlite_errorname",
    "exceptions",
    "__cause__",
    "__context__",
    "__suppress_context__",
    "__dict__",
    "__class__",
    "__module__",
    "__traceback__",
    "__notes__",
]


def raising(kind: type[BaseException]) -> Any:
    def refuse(*_arguments: object, **_options: object) -> Any:
        raise kind("refused")

    return refuse


def subclass(
    namespace: dict[str, Any], name: str = "Hostile", base: type[BaseException] = ConnectionResetError
) -> BaseException:
    kind: Any = type(name, (base,), namespace)
    error: BaseException = base.__new__(kind)
    return error


def problem(error: BaseException, expected: Category = Category.NETWORK, **options: Any) -> str | None:
    """Describe what is wrong with the classification of a hostile error.

    Most of these errors derive from ConnectionResetError, so their type still gives the category. The result
    is a text, because pytest cannot print an assertion about objects like these.
    """
    try:
        failure = Classifier(**options).classify(error, now=NOW)
        assert_well_formed(failure)
    except BaseException as raised:
        return f"{type(raised).__name__} was raised"
    return None if failure.category is expected else f"{failure.category} by {failure.rule}"


@loop_over("name", PROBED)
def test_attribute_that_raises(name: str) -> None:
    found = {kind.__name__: problem(subclass({name: property(raising(kind))})) for kind in RAISED}
    assert not any(found.values()), found


@loop_over(
    "method",
    [
        "__str__",
        "__repr__",
        "__getattr__",
        "__getattribute__",
        "__hash__",
        "__eq__",
        "__reduce__",
        "__bool__",
        "__len__",
    ],
)
def test_method_that_raises(method: str) -> None:
    found = {kind.__name__: problem(subclass({method: raising(kind)})) for kind in RAISED}
    assert not any(found.values()), found


def test_exception_whose_every_attribute_raises() -> None:
    locked = [locked_error(kind) for kind in RAISED]
    found = [problem(error) for error in locked]
    assert not any(found), found
    assert {classify(error).message for error in locked} == {"(the exception cannot be printed)"}


def locked_error(kind: type[BaseException]) -> BaseException:
    doors = {name: property(raising(kind)) for name in PROBED}
    methods = dict.fromkeys(("__str__", "__repr__", "__getattr__", "__getattribute__"), raising(kind))
    return subclass({**doors, **methods})


@pytest.mark.parametrize("result", [None, 5, b"bytes", [], NotImplemented])
def test_str_that_returns_something_else(result: object) -> None:
    error = subclass({"__str__": lambda self: result})
    found = (problem(error), classify(error).message)
    assert found == (None, "(the exception cannot be printed)")


class EvilText(str):
    """Text whose methods all raise, or claim equality with everything."""

    __slots__ = ()
    __len__ = __getitem__ = __iter__ = __contains__ = __add__ = raising(SystemExit)
    __format__ = __str__ = __repr__ = encode = strip = startswith = partition = splitlines = raising(
        SystemExit
    )
    isdigit = isascii = replace = lower = raising(SystemExit)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("Throttling")


class EvilNumber(int):
    """A number that claims to lie within any bounds."""

    def __ge__(self, other: object) -> bool:
        return True

    __le__ = __gt__ = __lt__ = __eq__ = __ge__
    __hash__ = int.__hash__
    __int__ = __index__ = __float__ = __trunc__ = raising(SystemExit)


class EvilFloat(float):
    def __ge__(self, other: object) -> bool:
        return True

    __lt__ = __le__ = __gt__ = __eq__ = __ge__
    __hash__ = float.__hash__
    __float__ = raising(SystemExit)


class EvilBytes(bytes):
    decode = raising(SystemExit)


class EvilMapping(dict[str, object]):
    get = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = raising(SystemExit)
    items = values = keys = raising(SystemExit)


class EvilThing:
    """Raises on every access, even to its own class."""

    __getattribute__ = __bool__ = __len__ = __eq__ = __call__ = __iter__ = raising(SystemExit)
    __hash__ = None  # type: ignore[assignment]


class Code(Enum):
    THROTTLING = "Throttling"


EVIL: dict[str, object] = {
    "text": EvilText("503"),
    "five letters": EvilText("x" * 5),
    "huge number": EvilNumber(10**30),
    "negative number": EvilNumber(-1),
    "not a number": EvilFloat(math.nan),
    "negative float": EvilFloat(-5.0),
    "bytes": EvilBytes(b"503"),
    "mapping": EvilMapping(Error={"Code": "Throttling"}),
    "thing": EvilThing(),
    "class": EvilThing,
    "enum": Code.THROTTLING,
    "function": raising(SystemExit),
    "function that gives a thing": lambda: EvilThing(),
    "object": object(),
    "tuple": (),
    "tuple of things": (EvilThing(),),
    "list of things": [EvilThing()],
    "dictionary of things": {"Error": EvilThing(), "ResponseMetadata": EvilThing(), "error": EvilThing()},
    "response": SimpleNamespace(
        status_code=EvilNumber(10**30), headers=EvilMapping(), get=raising(SystemExit)
    ),
    "true": True,
    "plain huge number": 10**30,
    "plain nan": math.nan,
    "plain bytes": b"\xff",
    "plain long text": "x" * 1_000_000,
}
"""Hostile values by name: neither pytest nor Hypothesis could handle the values themselves."""


@loop_over("name", PROBED)
def test_attribute_with_an_evil_value(name: str) -> None:
    """A value of an unexpected kind is ignored: the type still decides."""
    found = {evil: problem(subclass({name: constant(value)})) for evil, value in EVIL.items()}
    assert not any(found.values()), found
    if name not in NOT_FOR_A_CLASS:
        found = {evil: problem(subclass({name: value})) for evil, value in EVIL.items()}
        assert not any(found.values()), found


def constant(value: object) -> property:
    return property(lambda self: value)


NOT_FOR_A_CLASS = ("args", "__cause__", "__context__", "__suppress_context__", "__dict__", "__traceback__")


def test_hostile_headers_do_not_hide_the_status() -> None:
    """A rate limit stays a rate limit, whatever its headers are."""
    found = {
        evil: [problem(error, Category.RATE_LIMIT) for error in rate_limits_with_headers(value)]
        for evil, value in EVIL.items()
    }
    assert not any(any(problems) for problems in found.values()), found


def rate_limits_with_headers(value: object) -> list[BaseException]:
    return [
        Carrier(status_code=429, headers=value),
        Carrier(response=SimpleNamespace(status_code=429, headers=value)),
        Carrier(status_code=429, headers={"retry-after": value}),
        Carrier(status_code=429, headers=SimpleNamespace(get=lambda name: value)),
    ]


def test_evil_text_is_read_as_the_text_it_is() -> None:
    headers = {"retry-after": EvilText("7")}
    assert classify(Carrier(status_code=429, headers=headers)).retry_after == 7.0
    assert classify(Carrier(sqlstate=EvilText("40001"))).retryable
    assert classify(Carrier(code=EvilText("insufficient_quota"))).category is Category.RESOURCE


def test_hostile_response_does_not_hide_the_hint_of_the_error_itself() -> None:
    error = Carrier(status_code=429, response=EvilThing(), headers={"Retry-After": "7"})
    assert classify(error).retry_after == 7.0


def test_hostile_provider_code() -> None:
    """The classifier looks it up as plain text, or not at all."""
    kind: Any = type("ClientError", (Carrier,), {"__module__": "botocore.exceptions"})

    def error_with(code: object) -> BaseException:
        answered = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        error: BaseException = kind(response=answered)
        return error

    assert problem(error_with(EvilText("Throttling")), Category.RATE_LIMIT) is None
    found = {evil: problem(error_with(code), Category.VALIDATION) for evil, code in EVIL.items()}
    assert not any(found.values()), found


METHODS_OF_CLASSES = [
    "__hash__",
    "__eq__",
    "__getattribute__",
    "__getattr__",
    "__instancecheck__",
    "__subclasscheck__",
    "__repr__",
    "__str__",
    "__bool__",
    "__len__",
    "__call__",
    "mro",
    "__dir__",
]


@loop_over("method", METHODS_OF_CLASSES)
def test_metaclass_that_raises(method: str) -> None:
    found = {kind.__name__: problem(error_of_a_class_that_refuses(method, kind)) for kind in RAISED}
    assert not any(found.values()), found


def error_of_a_class_that_refuses(method: str, kind: type[BaseException]) -> BaseException:
    armed: list[bool] = []

    def refuse(self: Any, *arguments: Any) -> Any:
        if armed:
            raise kind("refused")
        return getattr(type, method)(self, *arguments)

    meta: Any = type("Meta", (type,), {method: refuse})
    error: BaseException = ConnectionResetError.__new__(meta("Hostile", (ConnectionResetError,), {}))
    armed.append(True)
    return error


@loop_over("name", ["__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__dict__"])
@loop_over(
    ("base", "category"),
    [
        (ConnectionResetError, Category.NETWORK),
        (RetryableError, Category.UNKNOWN),
        (BreakerOpenError, Category.NETWORK),
    ],
)
def test_metaclass_that_lies(base: type[BaseException], category: Category, name: str) -> None:
    found = {
        evil: problem(error_of_a_class_that_lies(base, name, value), category) for evil, value in EVIL.items()
    }
    assert not any(found.values()), found


def error_of_a_class_that_lies(base: type[BaseException], name: str, value: object) -> BaseException:
    def lie(cls: type, attribute: str) -> object:
        return value if attribute == name else type.__getattribute__(cls, attribute)

    meta: Any = type("Meta", (type,), {"__getattribute__": lie})
    error: BaseException = base.__new__(meta("Hostile", (base,), {}))
    return error


def test_metaclass_that_claims_to_be_every_class() -> None:
    """The cache never applies the result for one class to another, in any order."""

    class Everybody(type):
        def __eq__(cls, other: object) -> bool:
            return True

        def __hash__(cls) -> int:
            return hash(ZeroDivisionError)

    class Impostor(ConnectionResetError, metaclass=Everybody):
        pass

    for error, category in (
        (Impostor(), Category.NETWORK),
        (ZeroDivisionError(), Category.UNKNOWN),
        (Impostor(), Category.NETWORK),
    ):
        assert classify(error).category is category


@pytest.mark.parametrize("module", [5, None, "", "httpx_helpers", "my.httpx", "httpx2x", "evil httpx"])
def test_class_named_like_that_of_a_library(module: object) -> None:
    """Only the library's own package counts, not a similar name."""
    namespace = {"__module__": EvilText("httpx") if module == "evil httpx" else module}
    names = ("ReadTimeout", "ConnectError", "ConnectionError", "TimeoutError")
    found = {name: problem(subclass(namespace, name, Exception), Category.UNKNOWN) for name in names}
    assert not any(found.values()), found


def test_class_of_the_library_itself_is_known_by_name() -> None:
    assert classify(subclass({}, "Ours", httpx.ReadTimeout)).retryable
    assert (
        classify(subclass({"__module__": "httpx._anywhere"}, "ReadTimeout", Exception)).category
        is Category.UNKNOWN
    )
    assert classify(subclass({"__module__": "httpx._anywhere"}, "ConnectTimeout", Exception)).retryable


@pytest.mark.filterwarnings("ignore:non-string key:RuntimeWarning")
def test_class_body_with_keys_that_are_no_names() -> None:
    namespace: Any = {5: "five", (1, 2): None}
    assert problem(subclass(namespace)) is None


def test_very_long_names_and_messages_are_cut() -> None:
    error = subclass({}, "N" * 1_000_000)
    error.args = ("x" * 50_000_000,)
    failure = classify(error)
    assert_well_formed(failure)
    assert failure.message.startswith("x" * MAX_TEXT_LENGTH)
    assert failure.message.endswith("more characters)")


def test_message_of_the_longest_length_is_whole() -> None:
    assert classify(ValueError("x" * MAX_TEXT_LENGTH)).message == "x" * MAX_TEXT_LENGTH
    assert classify(ValueError("x" * (MAX_TEXT_LENGTH + 1))).message.endswith("… (1 more characters)")


def test_arguments_that_are_strange() -> None:
    found = [problem(error_with_arguments(value)) for value in (*EVIL.values(), None, (), "\ud800")]
    assert not any(found), found


def error_with_arguments(*arguments: object) -> BaseException:
    error = ConnectionResetError()
    error.args = arguments
    return error


def test_inspection_calls_only_headers() -> None:
    """An error may hold a client as its response: classification must not make it send anything."""
    calls: list[str] = []

    class SessionLike:
        def get(self, address: str) -> object:
            calls.append(address)
            return None

    classify(Carrier(response=SessionLike()), now=NOW)
    assert calls == []


# --- random exceptions -----------------------------------------------------------------------------

BASES: Sequence[type[BaseException]] = (
    Exception,
    BaseException,
    ValueError,
    OSError,
    ConnectionError,
    TimeoutError,
    KeyError,
    RetryableError,
    RateLimitedError,
    FinalError,
    Carrier,
    asyncio.CancelledError,
)


@dataclass(frozen=True)
class Evil:
    """A placeholder for a hostile value until the exception is made: Hypothesis would inspect the value."""

    name: str


def unwrapped(value: object) -> object:
    return EVIL[value.name] if isinstance(value, Evil) else value


junk = st.one_of(
    anything,
    st.builds(Evil, st.sampled_from(sorted(EVIL))),
    st.integers(0, 700),
    st.sampled_from(["40001", "insufficient_quota", "7"]),
)


@st.composite
def responses(draw: st.DrawFn) -> SimpleNamespace:
    headers = draw(st.dictionaries(st.sampled_from(["retry-after", "Retry-After", "retry-after-ms"]), junk))
    return SimpleNamespace(
        status_code=unwrapped(draw(junk)),
        status=unwrapped(draw(junk)),
        headers={name: unwrapped(value) for name, value in headers.items()},
    )


@st.composite
def exceptions(draw: st.DrawFn) -> BaseException:
    settable = [name for name in PROBED if not name.startswith("__") and name != "args"]
    drawn = draw(st.dictionaries(st.sampled_from(settable), st.one_of(junk, responses()), max_size=4))
    namespace = {name: unwrapped(value) for name, value in drawn.items()}
    if draw(st.booleans()):
        namespace["__str__"] = raising(SystemExit) if draw(st.booleans()) else lambda self: EvilText("evil")
    error = subclass(namespace, "Drawn", draw(st.sampled_from(BASES)))
    error.args = (draw(hostile_text),)
    return error


@st.composite
def graphs(draw: st.DrawFn) -> BaseException:
    """Errors that are linked in any direction, and groups of them."""
    errors = draw(st.lists(exceptions(), min_size=1, max_size=5))
    members = draw(st.lists(st.sampled_from(errors), max_size=3))
    if members:
        errors.append(BaseExceptionGroup("group", members))
    for error in errors:
        error.__cause__ = draw(st.one_of(st.none(), st.sampled_from(errors)))
        error.__context__ = draw(st.one_of(st.none(), st.sampled_from(errors)))
        error.__suppress_context__ = draw(st.booleans())
    return draw(st.sampled_from(errors))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    error=graphs(),
    unknown=st.sampled_from(ErrorClass),
    now=st.one_of(st.none(), st.floats(-1e12, 1e12)),
)
def test_any_exception_gives_a_failure(error: BaseException, unknown: ErrorClass, now: float | None) -> None:
    """The result never raises, is always well-formed, and is the same twice."""
    classifier = Classifier([RETRY_STOCK], public_codes=GATEWAY_CODES, unknown=unknown)
    failure = classifier.classify(error, now=now)
    assert_well_formed(failure)
    again = classifier.classify(error, now=now)
    assert again == failure


@pytest.fixture(autouse=True, scope="module")
def _no_stray_state() -> Iterator[None]:
    """After all hostile errors, ordinary errors still give the same results."""
    before = [classify(error) for error, _ in KNOWN]
    yield
    assert [classify(error) for error, _ in KNOWN] == before
