"""Item 13 (M1, M4): an error given as text is classified by its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.model.failure import Category, ErrorClass
from redrive.policy.classify import Classifier, Rule, classify
from redrive.policy.error_text import ReportedError, category_in, status_in
from redrive.policy.triage import triage

TEXTS = {
    "network": [
        "Connection timeout",
        "connection refused",
        "[Errno 111] ECONNREFUSED",
        "Request timed out after 30s",
        "deadline exceeded while waiting for reply",
        "Temporary failure in name resolution",
        "getaddrinfo failed",
        "Network is unreachable",
        "No route to host",
        "Broken pipe",
        "Read timeout (connect=5, read=30)",
        "could not connect to server",
        "504 Gateway Timeout: upstream request timeout (HTTP 408)",
        "SSL handshake error",
    ],
    "transient": [
        "503 Service Unavailable",
        "HTTP 502",
        "HTTP/1.1 500 Internal Server Error",
        "status code: 503",
        "the server returned 503",
        "Bad Gateway",
        "internal server error",
        "rate limit exceeded",
        "Rate-limited by upstream",
        "429 Too Many Requests",
        "too many requests, slow down",
        "ThrottlingException: Rate exceeded",
        "Quota exceeded: 100 requests per minute",
        "model overloaded",
        "temporarily unavailable, try again later",
        "deadlock detected",
    ],
    "resource": [
        "out of memory",
        "OOM killed",
        "No space left on device",
        "disk full",
        "Too many open files",
        "FATAL: sorry, too many connections",
        "connection pool exhausted",
        "Cannot allocate memory",
        "insufficient storage",
        "[Errno 122] Disk quota exceeded",
        "Storage quota exceeded",
        "quota exhausted",
        "You exceeded your current quota",
    ],
    "permission": [
        "permission denied",
        "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
        "Access denied for user 'x'",
        "403 Forbidden",
        "401 Unauthorized",
        "authentication failed",
        "invalid API key",
        "token: expired token",
    ],
    "validation": [
        "validation error: amount must be positive",
        "Invalid input",
        "malformed JSON",
        "missing required field 'to'",
        "400 Bad Request",
        "422 Unprocessable Entity",
        "schema mismatch",
        "could not parse the response",
    ],
    "permanent": [
        "it broke",
        "",
        "404 Not Found",
        "division by zero",
        "order 503 was lost",
        "unknown color",
    ],
}


@loop_over(("kind", "text"), [(kind, text) for kind, texts in TEXTS.items() for text in texts])
def test_13_texts_are_classified_by_their_words(kind: str, text: str) -> None:
    failure = classify(ReportedError(text))
    expected = {"504 Gateway Timeout: upstream request timeout (HTTP 408)": "transient"}.get(text, kind)
    assert triage(failure.category).value == expected


@loop_over(
    ("text", "status"),
    [
        ("503 Service Unavailable", 503),
        ("HTTP 429", 429),
        ("http/1.1 404 Not Found", 404),
        ("error: 500", 500),
        ("status=502", 502),
        ("order 503 was lost", None),
        ("took 500 ms", None),
        ("returned 500 rows", None),
        ("port 5432", None),
        ("HTTP 200", None),
        ("error 5001", None),
    ],
)
def test_13_the_http_status_of_a_text(text: str, status: int | None) -> None:
    assert status_in(text) == status
    assert classify(ReportedError(text)).http_status == status


def test_13_the_rules_of_the_application_come_first() -> None:
    rules = [
        Rule.when("bank", lambda error: "timeout" in str(error).lower(), Category.RESOURCE),
        Rule.for_status(503, Category.VALIDATION),
    ]
    classifier = Classifier(rules, unknown=ErrorClass.RETRYABLE)
    assert classifier.classify(ReportedError("Connection timeout")).category == Category.RESOURCE
    assert classifier.classify(ReportedError("503 again")).category == Category.VALIDATION
    assert classifier.classify(ReportedError("connection reset")).rule == "text: network"
    unknown = classifier.classify(ReportedError("it broke"))
    assert (unknown.category, unknown.error_class) == (Category.UNKNOWN, ErrorClass.RETRYABLE)


@given(st.text(max_size=300))
def test_13_no_text_fails(text: str) -> None:
    assert category_in(text) is None or category_in(text) in list(Category)
    assert classify(ReportedError(text)).category in list(Category)


@pytest.mark.parametrize("text", ["a" * 3_000_000, "missing " * 300_000, "status " * 300_000])
def test_13_a_long_text_is_searched_at_its_beginning(text: str) -> None:
    assert classify(ReportedError(text + " timeout")).category != Category.TIMEOUT
