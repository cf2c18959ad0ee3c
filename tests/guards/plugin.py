"""A pytest plugin (`-p tests.guards.plugin`) that switches off the guard named by REDRIVE_WITHOUT_GUARD."""

import pytest
from tests.guards.patch import GuardMovedError
from tests.guards.switch import switch_off_from_environment


def pytest_configure() -> None:
    try:
        switch_off_from_environment()
    except GuardMovedError as moved:
        raise pytest.UsageError(str(moved)) from None
