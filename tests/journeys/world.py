"""The world of a test: a database, applications on it, workers in real processes, and a journal.

app = world.app(shop)                       # an application with the tasks that `shop` registers
worker = await world.worker(shop)           # a process that executes them
run = await app.start("charge", 7)
await until(lambda: world.journal.count("charging"))
await world.kill(worker)
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
from tests.journeys.journal import VARIABLE, Journal
from tests.store.build import ask

from redrive.app import Redrive
from redrive.engine.worker import Worker
from redrive.model.run import Run
from redrive.parts import parts_of
from redrive.settings import Settings
from redrive.store.database import Database

PATIENCE = 45.0
"""Seconds after which a test that hangs fails."""

QUICK = {"lease_seconds": 10.0, "poll_seconds": 0.1, "grace_seconds": 20.0}
"""A lease is long enough for a busy machine. World.kill ends the leases of the worker that it kills."""

ROOT = Path(__file__).parents[2]

Define = Callable[[Redrive], object]


async def until(condition: Callable[[], object], within: float = PATIENCE) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + within
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        assert time.monotonic() < deadline, f"still waiting after {within:g} s: {_told(condition)}"
        await asyncio.sleep(0.02)


def _told(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except OSError:
        return repr(condition)


class WorkerProcess:
    """A worker that a test can kill, pause and stop."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path, log: Path) -> None:
        self._process = process
        self._told = told
        self._log = log
        self.pid = process.pid

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return the events of this name that its engine has emitted so far."""
        lines = self._told.read_text().split("\n")[:-1]
        return [fields for line in lines if (fields := json.loads(line))["event"] == event]

    @property
    def id(self) -> str:
        return str(self.events("worker.started")[0]["worker"])

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    async def ready(self) -> None:
        await until(lambda: self.events("worker.started") or self._dead_at_once())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Return once it has stopped: until then it may still take a lock."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    async def exited(self) -> int:
        await until(lambda: self.exit_code is not None)
        return self._process.wait()

    async def stopped(self) -> int:
        self.ask_to_stop()
        return await self.exited()

    def _dead_at_once(self) -> bool:
        assert self.exit_code is None, f"the worker has ended with {self.exit_code}:\n{self.log}"
        return False


class World:
    def __init__(self, url: str, folder: Path, schema: str) -> None:
        self.url = url
        self.folder = folder
        self.schema = schema
        self.journal = Journal(folder / "journal")
        self._apps: list[Redrive] = []
        self._workers: list[WorkerProcess] = []
        self._others: list[World] = []

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    async def freeze(self, worker: WorkerProcess) -> None:
        """Freeze a worker, but not in the middle of a write: on SQLite, other writers would wait for it."""
        worker.freeze()
        while not self._is_writable():
            worker.thaw()
            await asyncio.sleep(0.01)
            worker.freeze()

    def _is_writable(self) -> bool:
        if self.is_postgres:
            return True
        # Not the module sqlite3, which has its own copy of SQLite: closing the file there would release
        # the locks that the applications of this process hold.
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True

    def other(self) -> World:
        """Return a world with another database and the same journal."""
        folder = self.folder / f"other-{len(self._others)}"
        folder.mkdir()
        url = self.url if self.is_postgres else f"sqlite:///{folder}/work.db"
        other = World(url, folder, new_schema())
        other.journal = self.journal
        self._others.append(other)
        return other

    def app(self, define: Define | None = None, **settings: Any) -> Redrive:
        app = Redrive(settings=Settings(database_url=self.url, schema=self.schema, **settings))
        if define is not None:
            define(app)
        self._apps.append(app)
        return app

    @asynccontextmanager
    async def working(self, app: Redrive, **options: Any) -> AsyncIterator[Worker]:
        """Run a worker in this process, where a separate process makes no difference."""
        await app.open()
        worker = app.worker(**{**QUICK, **options})
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(task, PATIENCE)

    async def worker(self, define: Define, *, version: str = "", **options: Any) -> WorkerProcess:
        worker = self.start_worker(define, version=version, **options)
        await worker.ready()
        return worker

    def start_worker(self, define: Define, *, version: str = "", **options: Any) -> WorkerProcess:
        number = len(self._workers)
        told, log = self.folder / f"told-{number}", self.folder / f"log-{number}"
        command = [sys.executable, "-m", "tests.journeys.worker", f"{define.__module__}:{define.__name__}"]
        environment = {
            **os.environ,
            "REDRIVE_DATABASE_URL": self.url,
            "REDRIVE_SCHEMA": self.schema,
            "REDRIVE_CODE_VERSION": version,
            VARIABLE: str(self.journal.path),
        }
        with told.open("wb") as output, log.open("wb") as errors:
            process = subprocess.Popen(
                [*command, json.dumps({**QUICK, **options})],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=errors,
            )
        worker = WorkerProcess(process, told, log)
        self._workers.append(worker)
        return worker

    @asynccontextmanager
    async def supervised(self, define: Define, **options: Any) -> AsyncIterator[list[WorkerProcess]]:
        """Run a worker that restarts whenever it dies, as under systemd. Its leases end with it."""
        workers: list[WorkerProcess] = []

        async def supervise() -> None:
            while True:
                workers.append(self.start_worker(define, **options))
                while workers[-1].exit_code is None:
                    await asyncio.sleep(0.02)
                await self.expire_leases(workers[-1])

        task = asyncio.create_task(supervise())
        try:
            yield workers
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def kill(self, worker: WorkerProcess) -> None:
        """Kill a worker and expire its leases, so that the test need not wait for them."""
        worker.kill()
        await self.expire_leases(worker)

    async def expire_leases(self, worker: WorkerProcess) -> None:
        if worker.events("worker.started"):
            # A worker that migrated has not made the view of runs writable, as processes of the tests do.
            table, leased = ("leases", "true") if self.is_postgres else ("runs", "place = 'leased'")
            expiry = f"UPDATE redrive.{table} SET leased_until = 0 WHERE {leased} AND worker = :id"
            await ask(parts_of(self._apps[0]).database, expiry, id=worker.id)

    @property
    def database(self) -> Database:
        return parts_of(self._apps[0]).database

    async def runs(self) -> list[Run]:
        """Return all runs of the database."""
        app = self._apps[0]
        await app.open()
        return await parts_of(app).store.runs.all()

    async def places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for run in await self.runs():
            places[run.place] = places.get(run.place, 0) + 1
        return places

    async def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        for app in self._apps:
            await app.close()
        for other in self._others:
            await other.close()
        if self.is_postgres:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE".encode())


def new_schema() -> str:
    return f"journey_{uuid.uuid4().hex}"
