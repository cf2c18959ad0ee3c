"""Faults around the processes: the connection to the database, its server, its disk, the clocks."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import psycopg
from tests.crash.fault import Fault
from tests.crash.skew import set_error

FULL = ("disk is full", "disk I/O error")


class Cut(Fault):
    """Cuts the connection right after a commit, before the answer."""

    databases = ("postgresql",)
    pause = (0.1, 0.3)
    STATEMENTS = (
        *("claim", "complete", "advance_step", "reschedule", "stop", "reclaim", "enqueue_new"),
        *("mark_replaying", "pick", "lock_due", "settle", "save"),
    )

    async def strike(self) -> None:
        assert self.site.proxy is not None
        self.site.proxy.cut_after(self.random.choice(self.STATEMENTS))

    def occurrences(self) -> dict[str, int]:
        assert self.site.proxy is not None
        cuts = {f"cut after {name}": self.site.proxy.cut[name] for name in self.STATEMENTS}
        sink = self.site.sink
        resolved = {
            "commits resolved": sink.total("resolved", "written"),
            "claims adopted": sink.count("adopted"),
        }
        return cuts | resolved


class Server(Fault):
    """Stops PostgreSQL at once and starts it again, or kills one of its processes."""

    databases = ("postgresql",)
    pause = (1.0, 3.0)
    OWN = "SELECT pid FROM pg_stat_activity WHERE application_name = 'redrive' AND pid <> pg_backend_pid()"

    def prepare(self) -> None:
        self._restarts = self._backends = 0

    async def strike(self) -> None:
        await (self._kill_backend() if self.strikes % 3 == 1 else self._restart())
        self.strikes += 1

    async def stop(self) -> None:
        await self._until_up()

    def occurrences(self) -> dict[str, int]:
        recovered = self.site.sink.count("store.recovered")
        return {
            "restarts": self._restarts,
            "backends killed": self._backends,
            "operations resumed": recovered,
        }

    async def _restart(self) -> None:
        server = self.site.server
        assert server is not None
        await asyncio.shield(asyncio.create_task(self._down_and_up(server.kill, server.start)))
        self._restarts += 1

    async def _down_and_up(self, kill: Callable[[], None], start: Callable[[], None]) -> None:
        await asyncio.to_thread(kill)
        await asyncio.sleep(self.random.uniform(0.0, 0.7))
        await asyncio.to_thread(start)

    async def _kill_backend(self) -> None:
        with suppress(psycopg.Error):
            async with await psycopg.AsyncConnection.connect(self.site.url, autocommit=True) as connection:
                answer = await connection.execute(self.OWN)
                backends = [row[0] for row in await answer.fetchall()]
                if backends:
                    os.kill(self.random.choice(backends), signal.SIGKILL)
                    self._backends += 1
        await self._until_up()

    async def _until_up(self) -> None:
        while True:
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self.site.url):
                    return
            await asyncio.sleep(0.02)


class FullDisk(Fault):
    databases = ("sqlite",)
    pause = (1.0, 2.0)

    async def strike(self) -> None:
        assert self.site.disk is not None
        before = self._errors()
        self.site.disk.fill(self.group.processes)
        for _ in range(200):
            if self._errors() > before:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(self.random.uniform(0.0, self.lease))
        await self.stop()

    async def stop(self) -> None:
        assert self.site.disk is not None
        self.site.disk.free(self.group.processes)

    def occurrences(self) -> dict[str, int]:
        return {"disk full": self._errors(), "operations resumed": self.site.sink.count("store.recovered")}

    def _errors(self) -> int:
        failed = self.site.sink.of("store.failed")
        return sum(any(words in note["error"] for words in FULL) for note in failed)


class Skew(Fault):
    """Wrong clocks.

    On PostgreSQL each worker has its own clock; SQLite has one machine, whose clock jumps.
    """

    pause = (0.5, 1.5)

    def prepare(self) -> None:
        self._error = 0.001
        one_machine = self.site.database == "sqlite"
        self.group.errors = [self._error] if one_machine else [0.0, 3600.0, -3600.0, 7.0]

    async def strike(self) -> None:
        self.strikes += 1
        if self.site.database == "sqlite":
            self._error += self.random.choice(
                (self.random.uniform(-1.0, 0.0), self.random.uniform(1.0, 30.0))
            )
            set_error(self.site.folder / "clock-0", self._error)

    def occurrences(self) -> dict[str, int]:
        wrong = {child.number for child in self.site.starter.children.values() if child.spec.get("clock")}
        worked = [note for note in self.site.sink.of("effect") if note.child in wrong]
        leaps = {"leaps of the clock": self.strikes} if self.site.database == "sqlite" else {}
        return {"effects under a wrong clock": len(worked), **leaps}
