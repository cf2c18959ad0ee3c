"""A real server for commands, on its own port and on the database of the test.

served.enter("VIEWER") makes commands call the server, with a key of that role. served.leave() makes them use
the database again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import uvicorn
from tests.cli.shop import SECONDS, Shop

from redrive.app import Redrive
from redrive.server.app import create_app
from redrive.server.serve import bound
from redrive.settings import Argument, Settings

if TYPE_CHECKING:
    from tests.cli.conftest import Command


class Served:
    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shop = shop
        self._environment = monkeypatch
        self._started = threading.Event()
        self._socket = bound("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(SECONDS)

    async def _serve(self) -> None:
        generous = {"server_key_rate": Argument(100_000, ""), "server_org_rate": Argument(1_000_000, "")}
        app = Redrive(settings=Settings.load().override(generous), log=False, durable=False)
        self._api = create_app(app)
        config = uvicorn.Config(self._api, lifespan="on", log_config=None, access_log=False, ws="none")
        self._server = _Server(config, self._started)
        await self._server.serve([self._socket])

    def enter(self, role: str = "OWNER", *, key: str | None = None) -> None:
        self._environment.setenv("REDRIVE_SERVER", self.url)
        self._environment.setenv("REDRIVE_API_KEY", self._shop.key(role) if key is None else key)

    def leave(self) -> None:
        self._environment.delenv("REDRIVE_SERVER", raising=False)
        self._environment.delenv("REDRIVE_API_KEY", raising=False)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


class _Server(uvicorn.Server):
    """A server that reports when it has started, or has failed to."""

    def __init__(self, config: uvicorn.Config, started: threading.Event) -> None:
        super().__init__(config)
        self._told = started

    async def main_loop(self) -> None:
        self._told.set()
        await super().main_loop()


@pytest.fixture
def served(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    server = Served(shop, monkeypatch)
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres", "server"])
def anywhere(request: pytest.FixtureRequest, redrive: Command, shop: Shop) -> Command:
    """Commands on each of the databases, and the same commands against a server."""
    if request.param == "server":
        server: Served = request.getfixturevalue("served")
        server.enter()
    elif request.param == "postgres":
        request.getfixturevalue("on_postgres")
        redrive("migrate")
    else:
        shop.work()  # creates the file
    return redrive
