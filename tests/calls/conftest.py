"""Every test of calls starts with unused dependencies and no configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import certifi
import pytest
from tests.calls.http_caller import AsyncCaller, Caller, SyncCaller
from tests.calls.script import Play, play_async, play_async_block, play_block, play_sync
from tests.misbehaving import MisbehavingServer

from redrive import Backoff, RetryPolicy
from redrive.calls import guard
from redrive.calls.dependency import DEPENDENCIES, Dependencies
from redrive.policy import Immediate
from redrive.testing import VirtualClock


@pytest.fixture(autouse=True)
def _unused_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, unused in vars(Dependencies()).items():
        monkeypatch.setattr(DEPENDENCIES, name, unused)
    monkeypatch.setattr(guard, "_PLAIN_GUARDS", {})


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(
    params=[play_sync, play_async, play_block, play_async_block],
    ids=["sync", "async", "block", "async block"],
)
def play(request: pytest.FixtureRequest) -> Play:
    """Run a test four times: as a function and as a block, sync and async."""
    return cast("Play", request.param)


@pytest.fixture(scope="session", autouse=True)
def _plain_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove proxies, and let clients trust one certificate, which they load faster than all of them."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    file.write_text(first + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer() as running:
        yield running


class Connect(Protocol):
    """Makes a client of the server, or of another address; retries follow at once."""

    def __call__(self, base_url: str | None = None, **options: Any) -> Caller: ...


@pytest.fixture(params=[SyncCaller, AsyncCaller], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest, server: MisbehavingServer) -> Iterator[Connect]:
    callers: list[Caller] = []
    at_once = RetryPolicy(max_attempts=3, backoff=Backoff(Immediate()), max_rate_limit_waits=10)

    def make(base_url: str | None = None, **options: Any) -> Caller:
        caller = request.param(base_url or server.url, **{"policy": at_once, **options})
        callers.append(caller)
        return cast("Caller", caller)

    yield make
    for caller in callers:
        caller.close()
