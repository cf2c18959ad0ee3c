"""Run a demo: start its world, database, server and workers, keep orders coming, and stop it all cleanly."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import socket
import webbrowser
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import NamedTuple, TextIO, TypeVar

from redrive.app import Redrive
from redrive.demo import postgres
from redrive.demo.acme.outside import TOKEN, URL, Outside
from redrive.demo.acme.work import made
from redrive.demo.display import Display, sign_in_link
from redrive.demo.figures import DemoSummary, check_summary
from redrive.demo.folder import DemoFolder, Running
from redrive.demo.path import GuidedPath, ShippingZones
from redrive.demo.processes import Processes
from redrive.demo.screen import DemoScreen
from redrive.demo.text import DemoAddresses, ScreenText
from redrive.demo.traffic import MAX_RUNS, SECONDS_BETWEEN, Traffic
from redrive.demo.world import World, cause_outages
from redrive.demo.world_server import HOST, serving
from redrive.errors import InvalidValueError, RedriveError, StoreError
from redrive.settings import Settings

R = TypeVar("R")

PORT = 8400
WORKERS = 2
FRAME = 1.0
START_SECONDS = 90.0
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SETTINGS: dict[str, object] = {
    "worker_concurrency": 10,
    "worker_poll_ms": 500,
    "worker_grace_sec": 4.0,
    "worker_lease_ttl_sec": 20.0,
    "server_drain_sec": 2.0,
    "retention_days": "never",
    "dlq_archive_days": "never",
    "code_version": "2026.11.3",
}
ANNOUNCED = "Redrive is at "


class DemoOptions(NamedTuple):
    """`port` is None where any will do; `path` is where `redrive` is, if another terminal has to be told."""

    store: str = "sqlite"
    port: int | None = None
    directory: str | None = None
    browser: bool = False
    path: str = ""


class _Stopped(Exception):  # noqa: N818 - a signal stops the demo, no fault
    pass


def run(options: DemoOptions, stream: TextIO) -> DemoSummary | None:
    """Run the demo until a signal stops it. None where it was stopped before it had started."""
    if options.store == "postgresql":
        postgres.refuse_without_package()
    port = _port(options.port)
    place = DemoFolder.made(options.directory)
    try:
        return asyncio.run(_DemoRunner(options, place, port, DemoScreen(stream)).run())
    finally:
        place.leave()


class _DemoRunner:
    def __init__(self, options: DemoOptions, place: DemoFolder, port: int, screen: DemoScreen) -> None:
        self._options = options
        self._place = place
        self._port = port
        self._screen = screen
        self._over = asyncio.Event()
        self._zones = ShippingZones(place.folder)
        self._token = secrets.token_hex(16)
        self._world = World(self._token)
        self._traffic = Traffic()
        self._pages: asyncio.Future[str]
        self._display: Display | None = None

    async def run(self) -> DemoSummary | None:
        loop = asyncio.get_running_loop()
        self._pages = loop.create_future()
        for each in ENDINGS:
            loop.add_signal_handler(each, self._over.set)
        if self._screen.live:
            self._screen.draw(["Acme opens …"])
        self._zones.prepare()
        self._place.install_acme()
        with serving(self._world, self._zones) as outside, suppress(_Stopped):
            processes = Processes(self._place, {URL: outside, TOKEN: self._token})
            async with self._database(processes) as url:
                return await self._with_database(processes, url, outside)
        return None

    @asynccontextmanager
    async def _database(self, processes: Processes) -> AsyncIterator[str]:
        """The address of the database. A PostgreSQL of the demo stops after everything else."""
        if self._options.store != "postgresql":
            yield self._place.sqlite_url
            return
        home, ready, database = postgres.made_home(), asyncio.Event(), Processes(self._place, {})
        try:
            await database.start("database", "database", str(home), listen=lambda _: ready.set())
            await self._unless_over(_until(ready), database)
            processes.required.append(database)
            yield postgres.url_of(home)
        finally:
            await database.stop()
            postgres.remove(home)

    async def _with_database(self, processes: Processes, url: str, outside: str) -> DemoSummary:
        self._place.configure(database_url=url, server_port=self._port, **SETTINGS)
        settings = Settings.load(environment={}, file=self._place.settings)
        app = made(settings, Outside(outside, self._token), self._place.folder)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(app.close)
            stack.push_async_callback(processes.stop)
            with suppress(_Stopped):
                await self._unless_over(app.open(), processes)
                await self._start(processes, app)
                await self._go_on(processes, app, await self._opened(processes, app, url, outside))
            if self._screen.live:
                self._screen.say("Acme closes; workers finish what they have begun …")
            await processes.stop()
            found = await check_summary(app, self._world, self._traffic.started)
        for line in ("", *ScreenText(self._screen).sum(found, self._fate)):
            self._screen.say(line)
        return found

    @property
    def _fate(self) -> str:
        """What becomes of the database, and of all dead letters in it."""
        if self._options.store != "sqlite":
            return "gone with the demo's own PostgreSQL"
        if self._place.temporary:
            return "gone with the demo; --directory DIR keeps them"
        return f"kept, in {self._place.folder}"

    async def _start(self, processes: Processes, app: Redrive) -> None:
        await processes.start("server", "server", listen=self._hear)
        for number in range(1, WORKERS + 1):
            await processes.start(f"worker-{number}", "worker")
        for work in self._traffic.history(self._world):
            await self._traffic.start(app, work)

    def _hear(self, line: str) -> None:
        if line.startswith(ANNOUNCED) and not self._pages.done():
            self._pages.set_result(line.removeprefix(ANNOUNCED))
        elif self._display is not None:
            self._display.listen(line)

    async def _opened(self, processes: Processes, app: Redrive, url: str, outside: str) -> Display:
        """Wait for the server, then announce the demo to other terminals."""
        pages = await self._unless_over(self._pages, processes)
        self._zones.pages = pages
        self._place.announce(Running(os.getpid(), str(self._place.folder), pages, outside, url))
        fix = f"echo '{self._zones.line}' >> {shlex.quote(str(self._zones.file))}"
        where = DemoAddresses(pages, await sign_in_link(app, pages), outside, url, self._options.path, fix)
        if self._options.browser:
            await asyncio.to_thread(webbrowser.open, where.link)
        self._display = Display(self._screen, app, self._world, GuidedPath(app, self._zones), where)
        return self._display

    async def _go_on(self, processes: Processes, app: Redrive, display: Display) -> None:
        loops = [
            asyncio.create_task(cause_outages(self._world, Random(5))),
            asyncio.create_task(self._take_orders(app)),
        ]
        try:
            while not self._over.is_set():
                processes.refuse_missing()
                with suppress(StoreError):
                    await display.update()
                with suppress(TimeoutError):
                    async with asyncio.timeout(FRAME):
                        await self._over.wait()
        finally:
            for each in loops:
                each.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _take_orders(self, app: Redrive) -> None:
        while len(self._traffic.started) < MAX_RUNS:
            await asyncio.sleep(SECONDS_BETWEEN)
            with suppress(StoreError):
                await self._traffic.start(app, self._traffic.next())

    async def _unless_over(self, work: Awaitable[R], processes: Processes) -> R:
        """Await `work`, unless a signal stops the demo or one of its processes has ended."""
        task = asyncio.ensure_future(work)
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        try:
            while not task.done():
                if self._over.is_set():
                    raise _Stopped
                processes.refuse_missing()
                if asyncio.get_running_loop().time() > deadline:
                    raise RedriveError(f"the demo has not started within {START_SECONDS:.0f} s; try again")
                await asyncio.wait({task}, timeout=0.05)
            return await task
        finally:
            task.cancel()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _port(wanted: int | None) -> int:
    """The wanted port; without one, the usual port, or any free one if that is taken."""
    port = PORT if wanted is None else wanted
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((HOST, port))
        except OSError as error:
            if wanted is None:
                return 0
            problem = os.strerror(error.errno or 0)
            raise InvalidValueError(
                f"cannot listen on port {port} of {HOST}: {problem}; give another --port (0 is any free one)"
            ) from None
    return port
