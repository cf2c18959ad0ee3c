"""Servers for the tests of classification; the real ones are started once per test process, when needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.misbehaving import MisbehavingServer
from tests.servers import PostgresServer, RedisServer, postgresql, redis_server


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer() as running:
        yield running


@pytest.fixture(scope="session")
def live_postgres() -> Iterator[PostgresServer]:
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def live_redis() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running
