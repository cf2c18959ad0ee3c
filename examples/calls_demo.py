"""Outbound calls: policies that explain themselves, classified errors, retries, a breaker, redaction.

.venv/bin/python examples/calls_demo.py
"""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from dataclasses import replace
from textwrap import wrap
from types import MappingProxyType

from flaky_service import FlakyService, flaky_service
from redrive import Backoff, BreakerPolicy, HttpClient, classify, idempotency_key
from redrive.calls import Dependency
from redrive.errors import BreakerOpenError, HttpStatusError
from redrive.policy import CALL, STEP, Exponential, Proportional
from redrive.policy.fingerprint import fingerprint
from redrive.policy.redact import Redactor

COLOR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
QUICK = replace(CALL, backoff=Backoff(Exponential(0.2, 2.0), cap=2.0, jitter=Proportional(0.25)))


def paint(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOR else text


def title(number: int, text: str) -> None:
    print("\n" + paint("1", f"{number}. {text}"))


def say(text: str) -> None:
    print(f"   {text}")


class Lines(logging.Formatter):
    """The log lines of guarded calls, indented, without the fields that are the same in every line."""

    SHOWN = MappingProxyType(
        {"attempt": "attempt", "http_status": "status", "reason": "reason", "wait_ms": "wait_ms"}
    )

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        shown = " ".join(f"{name}={fields[field]}" for field, name in self.SHOWN.items() if field in fields)
        return paint("2", f"   │ {fields.get('event', ''):<20}{shown}")


def show_logs() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Lines())
    logger = logging.getLogger("redrive.calls")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def policies() -> None:
    title(1, "A policy explains its whole schedule before anything runs")
    for line in str(STEP.explain()).splitlines():
        say(line)


def classification() -> None:
    title(2, "Every error is classified by a named rule; unknown errors are final")
    provider_down = HttpStatusError("POST /charges answered 503", status=503, headers={"retry-after": "7"})
    for error in (
        provider_down,
        TimeoutError(),
        ConnectionRefusedError(),
        ValueError("no such plan"),
        KeyError("id"),
    ):
        failure = classify(error)
        verdict = paint("32", "retry") if failure.retryable else paint("31", "final")
        again = f", again after {failure.retry_after:g} s" if failure.retry_after else ""
        say(f"{type(error).__name__:<22} {failure.category:<12} {verdict}  {failure.rule}{again}")


def recovered_call(client: HttpClient, service: FlakyService) -> None:
    title(3, "A call fails twice and recovers; the key makes repeating it safe")
    service.plan(503, 502, 200)
    key = idempotency_key("billing", "user_42", "invoice_7", "charge", "v1")
    answer = client.request("POST", "/charges", json={"amount": 1200}, idempotency_key=key)
    say(f"answer {answer} after {len(service.requests)} requests,")
    say(f"all with idempotency-key {key}")


def refused_repeat(client: HttpClient, service: FlakyService) -> None:
    title(4, "Without a key, a request that may have been executed is not repeated")
    service.plan(502)
    try:
        client.request("POST", "/charges", json={"amount": 1200})
    except HttpStatusError as error:
        say(f"{type(error).__name__}: {error}")
        for line in error.__notes__[0].splitlines():
            for piece in wrap(line, 76, subsequent_indent="  ", drop_whitespace=False) or [""]:
                say(paint("2", piece))


def rate_limit(client: HttpClient, service: FlakyService) -> None:
    title(5, "A rate limit with a hint: wait exactly that long, use up no attempt")
    service.plan(429, retry_after="1")
    started = time.monotonic()
    client.request("GET", "/charges")
    say(f"answered after {time.monotonic() - started:.2f} s")


def breaker(service: FlakyService) -> None:
    title(6, "A dependency goes down: its breaker opens, and later closes automatically")
    logging.getLogger("redrive.calls").setLevel(logging.ERROR)
    policy = BreakerPolicy(window_calls=4, minimum_calls=4, cool_down=1.0, successes_to_close=2)
    converter = Dependency("converter", breaker=policy)
    asked = len(service.requests)
    with HttpClient(service.url, dependency=converter, policy=replace(CALL, max_attempts=1)) as client:
        for number in range(1, 13):
            service.down = number < 8
            outcome = converted(client)
            say(f"call {number:>2}  breaker {converter.snapshot().state:<10} {outcome}")
            time.sleep(0.2)
    say(f"12 calls, {len(service.requests) - asked} requests reached the service")


def converted(client: HttpClient) -> str:
    try:
        client.request("GET", "/convert")
    except BreakerOpenError as error:
        return paint("33", f"not called; next try in {error.retry_after:.1f} s")
    except HttpStatusError as error:
        return paint("31", str(error))
    return paint("32", "GET /convert answered 200")


def evidence() -> None:
    title(7, "Stored failures are redacted, and equal failures form a group")
    redactor = Redactor(key=b"a key of this organization")
    password = "hunter2-and-more"
    for order in (4711, 4712):
        message = f"order {order}: postgres://shop:{password}@db is down"
        group = fingerprint(step="load", message=redactor.text(message))
        say(redactor.text(message))
        say(paint("2", f"group {group.value[:15]}  {group.pattern}"))


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows ? for ·
    print(paint("1", "Redrive: guarded calls"))
    show_logs()
    policies()
    classification()
    with flaky_service() as service, HttpClient(service.url, policy=QUICK) as client:
        recovered_call(client, service)
        refused_repeat(client, service)
        rate_limit(client, service)
        breaker(service)
    evidence()
    print("\nNext: the guides in docs/guides, starting with retrying.md")


if __name__ == "__main__":
    main()
