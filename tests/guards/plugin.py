"""For pytest, `-p tests.guards.plugin`: all tests run without the guard that REDRIVE_WITHOUT_GUARD names."""

import pytest
from tests.guards.patch import GuardMovedError
from tests.guards.switch import switch_off_from_environment


def pytest_configure() -> None:
    try:
        switch_off_from_environment()
    except GuardMovedError as moved:
        raise pytest.UsageError(str(moved)) from None
