"""The director: starts everything that a demo consists of, keeps it going, and ends it cleanly."""

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
from redrive.demo import postgres, weather
from redrive.demo.acme.outside import TOKEN, URL, Outside
from redrive.demo.acme.work import made
from redrive.demo.course import Course
from redrive.demo.crew import Crew
from redrive.demo.place import Place, Running
from redrive.demo.screen import Screen
from redrive.demo.shop_floor import ShopFloor
from redrive.demo.show import Show, sign_in_link
from redrive.demo.standing import Sum, reckoned
from redrive.demo.traffic import MAX_RUNS, SECONDS_BETWEEN, Traffic
from redrive.demo.words import Where, Words
from redrive.demo.world import World
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


class Wishes(NamedTuple):
    """`port` is None where any will do; `path` is where `redrive` is, if another terminal has to be told."""

    store: str = "sqlite"
    port: int | None = None
    directory: str | None = None
    browser: bool = False
    path: str = ""


class _Over(Exception):  # noqa: N818 - somebody wanted it to end
    pass


def run(wishes: Wishes, stream: TextIO) -> Sum | None:
    """Until somebody ends it. The sum, unless it was ended before there was anything."""
    if wishes.store == "postgresql":
        postgres.refuse_without_package()
    port = _port(wishes.port)
    place = Place.made(wishes.directory)
    try:
        return asyncio.run(_Director(wishes, place, port, Screen(stream)).run())
    finally:
        place.leave()


class _Director:
    def __init__(self, wishes: Wishes, place: Place, port: int, screen: Screen) -> None:
        self._wishes = wishes
        self._place = place
        self._port = port
        self._screen = screen
        self._over = asyncio.Event()
        self._floor = ShopFloor(place.folder)
        self._token = secrets.token_hex(16)
        self._world = World(self._token)
        self._traffic = Traffic()
        self._pages: asyncio.Future[str]
        self._show: Show | None = None

    async def run(self) -> Sum | None:
        loop = asyncio.get_running_loop()
        self._pages = loop.create_future()
        for each in ENDINGS:
            loop.add_signal_handler(each, self._over.set)
        if self._screen.live:
            self._screen.draw(["Acme opens …"])
        self._floor.prepare()
        self._place.install_acme()
        with serving(self._world, self._floor) as outside, suppress(_Over):
            crew = Crew(self._place, {URL: outside, TOKEN: self._token})
            async with self._database(crew) as url:
                return await self._with_database(crew, url, outside)
        return None

    @asynccontextmanager
    async def _database(self, crew: Crew) -> AsyncIterator[str]:
        """The address of the database. A server of our own goes last."""
        if self._wishes.store != "postgresql":
            yield self._place.sqlite_url
            return
        home, ready, database = postgres.made_home(), asyncio.Event(), Crew(self._place, {})
        try:
            await database.start("database", "database", str(home), hear=lambda _: ready.set())
            await self._unless_over(_until(ready), database)
            crew.leaned_on.append(database)
            yield postgres.url_of(home)
        finally:
            await database.stop()
            postgres.remove(home)

    async def _with_database(self, crew: Crew, url: str, outside: str) -> Sum:
        self._place.configure(database_url=url, server_port=self._port, **SETTINGS)
        settings = Settings.load(environment={}, file=self._place.settings)
        app = made(settings, Outside(outside, self._token), self._place.folder)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(app.close)
            stack.push_async_callback(crew.stop)
            with suppress(_Over):
                await self._unless_over(app.open(), crew)
                await self._start(crew, app)
                await self._go_on(crew, app, await self._opened(crew, app, url, outside))
            if self._screen.live:
                self._screen.say("Acme closes; workers finish what they have begun …")
            await crew.stop()
            found = await reckoned(app, self._world, self._traffic.started)
        for line in ("", *Words(self._screen).sum(found, self._fate)):
            self._screen.say(line)
        return found

    @property
    def _fate(self) -> str:
        """What becomes of the database, and of all dead letters in it."""
        if self._wishes.store != "sqlite":
            return "gone with the demo's own PostgreSQL"
        if self._place.temporary:
            return "gone with the demo; --directory DIR keeps them"
        return f"kept, in {self._place.folder}"

    async def _start(self, crew: Crew, app: Redrive) -> None:
        await crew.start("server", "server", hear=self._hear)
        for number in range(1, WORKERS + 1):
            await crew.start(f"worker-{number}", "worker")
        for work in self._traffic.history(self._world):
            await self._traffic.start(app, work)

    def _hear(self, line: str) -> None:
        if line.startswith(ANNOUNCED) and not self._pages.done():
            self._pages.set_result(line.removeprefix(ANNOUNCED))
        elif self._show is not None:
            self._show.hear(line)

    async def _opened(self, crew: Crew, app: Redrive, url: str, outside: str) -> Show:
        """The doors are open: others are told where."""
        pages = await self._unless_over(self._pages, crew)
        self._floor.pages = pages
        self._place.announce(Running(os.getpid(), str(self._place.folder), pages, outside, url))
        fix = f"echo '{self._floor.line}' >> {shlex.quote(str(self._floor.file))}"
        where = Where(pages, await sign_in_link(app, pages), outside, url, self._wishes.path, fix)
        if self._wishes.browser:
            await asyncio.to_thread(webbrowser.open, where.link)
        self._show = Show(self._screen, app, self._world, Course(app, self._floor), where)
        return self._show

    async def _go_on(self, crew: Crew, app: Redrive, show: Show) -> None:
        loops = [
            asyncio.create_task(weather.change(self._world, Random(5))),
            asyncio.create_task(self._take_orders(app)),
        ]
        try:
            while not self._over.is_set():
                crew.refuse_missing()
                with suppress(StoreError):
                    await show.update()
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

    async def _unless_over(self, work: Awaitable[R], crew: Crew) -> R:
        """What it gives, unless somebody ends the demo, or somebody of the crew is missing."""
        task = asyncio.ensure_future(work)
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        try:
            while not task.done():
                if self._over.is_set():
                    raise _Over
                crew.refuse_missing()
                if asyncio.get_running_loop().time() > deadline:
                    raise RedriveError(f"the demo has not started within {START_SECONDS:.0f} s; try again")
                await asyncio.wait({task}, timeout=0.05)
            return await task
        finally:
            task.cancel()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _port(wanted: int | None) -> int:
    """The usual one if nobody has taken it, unless a certain one is wanted."""
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
