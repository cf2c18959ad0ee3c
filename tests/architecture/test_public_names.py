"""The public face is small, listed here on purpose, and cheap to import."""

import subprocess
import sys

import pytest
from tests.cases import loop_over

import redrive

PUBLIC = """
    AsyncHttpClient Attempt Backoff BreakerOpenError BreakerPolicy BudgetPolicy Category Classifier
    Context DeadLetterQueue DeferredError Delivery Dependency Failures Effect ErrorClass Failure
    FinalError Guard HttpClient RateLimitedError Redrive RedriveError RetryPolicy RetryableError
    Rule RunHandle Settings SyncRunHandle Task Template UnavailableError attempts call classify
    current_attempt dependency idempotency_key log_fields new_encryption_key retry
"""

HEAVY = {"httpx2", "pydantic", "asyncpg", "apsw", "redis", "fastapi", "jinja2", "asyncio", "logging", "ssl"}


def test_the_public_names_are_these() -> None:
    assert sorted(redrive.__all__) == sorted(PUBLIC.split())


@loop_over("name", PUBLIC.split())
def test_each_can_be_had(name: str) -> None:
    assert getattr(redrive, name).__name__ == name


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'charge'"):
        redrive.charge  # noqa: B018


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import redrive").isdisjoint(HEAVY)


def test_guarding_a_sync_function_loads_neither_a_client_nor_an_event_loop() -> None:
    statement = "import redrive; redrive.retry(lambda: None)()"
    assert loaded_by(statement).isdisjoint({"httpx2", "pydantic", "asyncio", "ssl", "redrive.policy.redact"})


def test_the_list_of_heavy_modules_is_not_vacuous() -> None:
    assert loaded_by("import redrive; redrive.HttpClient") >= {"httpx2", "logging", "ssl"}
