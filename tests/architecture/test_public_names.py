"""The public face is small, listed here on purpose, and cheap to import."""

import re
import subprocess
import sys
from importlib import import_module

import pytest
from tests.cases import loop_over

import redrive
from redrive.renamed import METHODS
from redrive.renamed import PUBLIC as PUBLIC_NAMES_MOVED

PUBLIC = """
    AsyncHttpClient Attempt Backoff BreakerPolicy Category Context DeadLetterQueue Effect FinalError
    Guard HttpClient RateLimitedError Redrive RedriveError RetryPolicy RetryableError Rule RunHandle
    Settings Task Template attempts call classify dependency idempotency_key retry
"""

OF_AN_APPLICATION = """
    breaker breakers close events failures idempotent listen members open queues run run_worker runs start
    start_many stream streams sync task template work worker workers workflow
"""

HEAVY = {"httpx2", "pydantic", "asyncpg", "apsw", "redis", "fastapi", "jinja2", "asyncio", "logging", "ssl"}


def test_the_public_names_are_these() -> None:
    assert sorted(redrive.__all__) == sorted(PUBLIC.split())


@loop_over("name", PUBLIC.split())
def test_each_can_be_had(name: str) -> None:
    assert getattr(redrive, name).__name__ == name


def test_the_methods_of_an_application_are_these() -> None:
    assert [name for name in dir(redrive.Redrive) if not name.startswith("_")] == OF_AN_APPLICATION.split()


def test_the_error_about_a_moved_name_says_where_it_is() -> None:
    for name, home in PUBLIC_NAMES_MOVED.items():
        module, _, new = home.rpartition(".")
        assert hasattr(import_module(module), new)
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; it is {re.escape(home)}$"):
            getattr(redrive, name)


def test_the_error_about_a_renamed_method_says_what_to_use() -> None:
    app = redrive.Redrive("sqlite://:memory:", log=False)
    for subject in (app, app.sync, app.run("1")):
        for name, new in METHODS.items():
            with pytest.raises(AttributeError, match=f"no attribute '{name}'; use {re.escape(new)}$"):
                getattr(subject, name)
        with pytest.raises(AttributeError, match=r"no attribute 'strat'$"):
            getattr(subject, "strat")  # noqa: B009 - a type checker would refuse it
    for new in METHODS.values():
        if found := re.match(r"app\.(\w+)", new):
            assert found[1] in OF_AN_APPLICATION.split()


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
