"""Run a demo: start the services, database, server and workers, create work, and stop everything cleanly."""

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
from redrive.demo import postgres, redis_server
from redrive.demo.acme.app import EVENTS, create_app
from redrive.demo.acme.services import TOKEN, URL, Services
from redrive.demo.display import DemoAddresses, Display, DisplayText, sign_in_link
from redrive.demo.figures import DemoSummary, check_summary
from redrive.demo.folder import DemoFolder, Running, ShippingZones
from redrive.demo.order_events import OrderEvents
from redrive.demo.processes import Processes
from redrive.demo.screen import DemoScreen
from redrive.demo.traffic import MAX_RUNS, SECONDS_BETWEEN, Traffic, TrafficWork
from redrive.demo.world import World, cause_outages
from redrive.demo.world_server import HOST, serving
from redrive.errors import InvalidValueError, RedriveError, StoreError
from redrive.settings import Settings

R = TypeVar("R")

PORT = 8400
WORKERS = 2
UPDATE_SECONDS = 1.0
START_SECONDS = 90.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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
    """The options of a demo.

    port  None for the usual port or, if that is taken, any free one
    path  the folder of `redrive`, or "" if other terminals find it
    """

    store: str = "sqlite"
    port: int | None = None
    directory: str | None = None
    browser: bool = False
    path: str = ""


class _Stopped(Exception):  # noqa: N818 - the user stopped the demo; nothing is wrong
    pass


def run(options: DemoOptions, stream: TextIO) -> DemoSummary | None:
    """Run the demo until a signal stops it. Return None if it was stopped before it had started."""
    if options.store == "postgresql":
        postgres.require_package()
    port = _port(options.port)
    folder = DemoFolder.create(options.directory)
    try:
        return asyncio.run(_DemoRunner(options, folder, port, DemoScreen(stream)).run())
    finally:
        folder.remove()


class _DemoRunner:
    def __init__(self, options: DemoOptions, folder: DemoFolder, port: int, screen: DemoScreen) -> None:
        self._options = options
        self._folder = folder
        self._port = port
        self._screen = screen
        self._stopped = asyncio.Event()
        self._zones = ShippingZones(folder.path)
        self._token = secrets.token_hex(16)
        self._world = World(self._token)
        self._traffic = Traffic()
        self._pages: asyncio.Future[str]
        self._display: Display | None = None
        self._events = OrderEvents("")

    async def run(self) -> DemoSummary | None:
        loop = asyncio.get_running_loop()
        self._pages = loop.create_future()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stopped.set)
        if self._screen.live:
            self._screen.draw(["Starting the Acme demo …"])
        self._zones.prepare()
        self._folder.install_acme()
        with serving(self._world, self._zones) as outside, suppress(_Stopped):
            async with self._redis() as (redis, events):
                processes = Processes(self._folder, {URL: outside, TOKEN: self._token, EVENTS: events})
                processes.required += redis
                self._events = OrderEvents(events)
                async with self._database(processes) as url:
                    return await self._with_database(processes, url, outside)
        return None

    @asynccontextmanager
    async def _redis(self) -> AsyncIterator[tuple[list[Processes], str]]:
        """Yield the process of the Redis and its URL, or neither if Redis is not installed."""
        if not redis_server.is_available():
            self._screen.say(redis_server.MISSING)
            yield [], ""
            return
        file, url = redis_server.configure(self._folder.path)
        ready, redis = asyncio.Event(), Processes(self._folder, {})
        try:
            await redis.start("redis", "redis", str(file), listen=lambda _: ready.set())
            await self._unless_stopped(ready.wait(), redis)
            yield [redis], url
        finally:
            await redis.stop()

    @asynccontextmanager
    async def _database(self, processes: Processes) -> AsyncIterator[str]:
        """Yield the URL of the database. A PostgreSQL server of the demo stops after everything else."""
        if self._options.store != "postgresql":
            yield self._folder.sqlite_url
            return
        home, ready, database = postgres.create_home(), asyncio.Event(), Processes(self._folder, {})
        try:
            await database.start("database", "database", str(home), listen=lambda _: ready.set())
            await self._unless_stopped(ready.wait(), database)
            processes.required.append(database)
            yield postgres.url_of(home)
        finally:
            await database.stop()
            postgres.remove(home)

    async def _with_database(self, processes: Processes, url: str, outside: str) -> DemoSummary:
        self._folder.configure(database_url=url, server_port=self._port, **SETTINGS)
        settings = Settings.load(environment={}, file=self._folder.settings)
        app = create_app(settings, Services(outside, self._token), self._folder.path)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(app.close)
            stack.push_async_callback(self._events.close)
            stack.push_async_callback(processes.stop)
            with suppress(_Stopped):
                await self._unless_stopped(app.open(), processes)
                await self._start(processes, app)
                display = await self._open_display(processes, app, url, outside)
                await self._work(processes, app, display)
            if self._screen.live:
                self._screen.say("Stopping the demo; workers finish their work in progress …")
            await processes.stop()
            summary = await check_summary(app, self._world, self._traffic.started)
        for line in ("", *DisplayText(self._screen).summary(summary, self._database_remark)):
            self._screen.say(line)
        return summary

    @property
    def _database_remark(self) -> str:
        """What happens to the database and its dead letters."""
        if self._options.store != "sqlite":
            return "deleted with the demo's PostgreSQL database"
        if self._folder.temporary:
            return "deleted with the demo; use --directory DIR to keep them"
        return f"kept in {self._folder.path}"

    async def _start(self, processes: Processes, app: Redrive) -> None:
        await processes.start("server", "server", listen=self._listen)
        for number in range(1, WORKERS + 1):
            await processes.start(f"worker-{number}", "worker")
        for work in self._traffic.history(self._world):
            await self._receive(app, work)

    def _listen(self, line: str) -> None:
        if line.startswith(ANNOUNCED) and not self._pages.done():
            self._pages.set_result(line.removeprefix(ANNOUNCED))
        elif self._display is not None:
            self._display.listen(line)

    async def _open_display(self, processes: Processes, app: Redrive, url: str, outside: str) -> Display:
        """Wait for the server, and announce the demo to other terminals."""
        pages = await self._unless_stopped(self._pages, processes)
        self._zones.pages = pages
        self._folder.announce(Running(os.getpid(), str(self._folder.path), pages, outside, url))
        fix = f"echo '{self._zones.line}' >> {shlex.quote(str(self._zones.file))}"
        link, preparation = (
            await sign_in_link(app, pages),
            self._folder.prepare_shells(url, self._options.path),
        )
        if self._options.browser:
            await asyncio.to_thread(webbrowser.open, link)
        addresses = DemoAddresses(pages, link, outside, preparation, fix)
        self._display = Display(self._screen, app, self._world, self._zones, addresses)
        return self._display

    async def _work(self, processes: Processes, app: Redrive, display: Display) -> None:
        loops = [
            asyncio.create_task(cause_outages(self._world, Random(5))),
            asyncio.create_task(self._receive_work(app)),
        ]
        try:
            while not self._stopped.is_set():
                processes.require_running()
                with suppress(StoreError):
                    await display.update()
                with suppress(TimeoutError):
                    async with asyncio.timeout(UPDATE_SECONDS):
                        await self._stopped.wait()
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _receive_work(self, app: Redrive) -> None:
        while len(self._traffic.started) < MAX_RUNS:
            await asyncio.sleep(SECONDS_BETWEEN)
            with suppress(StoreError):
                await self._receive(app, self._traffic.next())

    async def _receive(self, app: Redrive, work: TrafficWork) -> None:
        await self._traffic.start(app, work)
        if work.workflow == "checkout":
            await self._events.publish(work.payload)

    async def _unless_stopped(self, work: Awaitable[R], processes: Processes) -> R:
        """Await `work`, unless a signal stops the demo or one of its processes exits."""
        task = asyncio.ensure_future(work)
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        try:
            while not task.done():
                if self._stopped.is_set():
                    raise _Stopped
                processes.require_running()
                if asyncio.get_running_loop().time() > deadline:
                    raise RedriveError(f"the demo did not start within {START_SECONDS:.0f} s. Try again")
                await asyncio.wait({task}, timeout=0.05)
            return await task
        finally:
            task.cancel()


def _port(wanted: int | None) -> int:
    """Return the wanted port. Without one, return `PORT`, or 0 for any free port if `PORT` is taken."""
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
                f"can't listen on port {port} of {HOST}: {problem}. Use another --port (0 picks a free one)"
            ) from None
    return port
