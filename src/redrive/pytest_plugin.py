"""Fixtures for pytest. Override `redrive_app` to return your application:

@pytest.fixture
def redrive_app():
    return my_program.app

async def test_checkout(redrive_test):
    run = await my_program.app.start("checkout", {...})
    await redrive_test.drain()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.testing import Harness


@pytest.fixture
def redrive_app() -> Redrive:
    """The application under test; override it."""
    raise pytest.UsageError(
        "no application to test: define a fixture `redrive_app` that returns your application, "
        "in this file or in conftest.py"
    )


@pytest.fixture
def redrive_test(redrive_app: Redrive) -> Iterator[Harness]:
    """The application with an in-memory database and a virtual clock: see redrive.testing.Harness."""
    from redrive.testing import Harness

    harness = Harness(redrive_app)
    yield harness
    harness.restore()
