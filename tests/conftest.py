"""Settings and servers for all tests.

A busy machine must not fail a test, and Hypothesis tries the same examples every time, unless
REDRIVE_TEST_EXPLORE asks for new ones. The servers are real ones, started once per test process, when needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.servers import PostgresServer, RedisServer, postgresql, redis_server

settings.register_profile(
    "redrive",
    deadline=None,
    derandomize="REDRIVE_TEST_EXPLORE" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("redrive")


@pytest.fixture(scope="session")
def live_postgres() -> Iterator[PostgresServer]:
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def live_redis() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running
