"""Settings and servers for all tests.

A busy machine must not fail a test, and Hypothesis uses the same examples every time, unless
REDRIVE_TEST_EXPLORE asks for new ones. The servers are real, and start when needed, once per test process.

Tests start hundreds of interpreters. With PYTHONDONTWRITEBYTECODE, each would compile everything again, so
their bytecode goes next to the cache of pytest, outside the source.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.ready_tables import copy_ready_tables, real_migrations
from tests.runs_view import make_runs_writable
from tests.servers import PostgresServer, RedisServer, postgresql, redis_server
from tests.short_ids import allow_short_ids
from tests.store.schemas import Schemas
from tests.tiers import belongs_to, is_left_out_of_test

if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells ignore SIGINT in background jobs; processes of tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "redrive",
    deadline=None,
    derandomize="REDRIVE_TEST_EXPLORE" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("redrive")
make_runs_writable()
allow_short_ids()
copy_ready_tables()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=["all", "test", "rest"], default="all", help="which tests: see tests/tiers.py"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    path = collection_path.relative_to(config.rootpath).as_posix()
    is_ignored = config.getoption("tier") == "test" and is_left_out_of_test(path)
    return True if is_ignored else None  # False would overrule all other plugins


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("tier")
    if tier != "all":
        chosen = [item for item in items if belongs_to(item, tier)]
        config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
        items[:] = chosen


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection: there are thousands, and all stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(name="real_migrations")
def _real_migrations() -> Iterator[None]:
    """For tests of migrations: see tests/ready_tables.py."""
    with real_migrations():
        yield


@pytest.fixture(scope="session")
def live_postgres() -> Iterator[PostgresServer]:
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def schemas(live_postgres: PostgresServer) -> Iterator[Schemas]:
    lender = Schemas(live_postgres.url)
    yield lender
    lender.close()


@pytest.fixture(scope="session")
def live_redis() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running
