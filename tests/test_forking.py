"""Processes that fork after using an application, and use it again on both sides."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.servers import PostgresServer

from redrive import DeadLetterQueue, Redrive
from redrive.errors import StoreError
from redrive.parts import parts_of

SECONDS = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/work.db"
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    with server.new_database() as new:
        yield new


@pytest.fixture
def app(url: str) -> Iterator[Redrive]:
    app = Redrive(url, log=False)

    @app.task
    def hello(number: int) -> int:
        return number

    yield app
    app.sync.close()


def in_child(function: Callable[[], Any]) -> Any:
    """Call the function in a forked child and return its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends a child that hangs
        status = 1
        try:
            os.write(writing, json.dumps(function()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    return json.loads(text)


def ids_of(app: Redrive) -> set[str]:
    return {run.id for run in app.sync.runs().list().runs}


def test_start_works_in_a_child_and_after_it_in_the_parent(app: Redrive) -> None:
    before = app.sync.start("hello", 0).id
    children = [in_child(lambda: app.sync.start("hello", 1).id) for _ in range(2)]
    after = app.sync.start("hello", 2).id

    assert ids_of(app) == {before, *children, after}
    assert len(ids_of(app)) == 4


def test_a_handle_and_a_service_from_before_the_fork_work_in_the_child(app: Redrive) -> None:
    run, runs = app.sync.start("hello", 0), app.sync.runs()

    assert in_child(lambda: [run.state(), len(runs.list().runs), run.cancel()]) == ["PENDING", 1, "cancelled"]
    assert run.state() == "CANCELLED"


def test_9_a_pool_of_processes_starts_runs(app: Redrive) -> None:
    app.sync.start("hello", 0)

    with multiprocessing.get_context("fork").Pool(2, _remember, (app,)) as pool:
        started = pool.map_async(_start, range(6)).get(timeout=SECONDS)

    assert set(started) < ids_of(app)
    assert len(ids_of(app)) == 7


_apps: list[Redrive] = []


def _remember(app: Redrive) -> None:
    _apps.append(app)


def _start(number: int) -> str:
    return _apps[0].sync.start("hello", number).id


def test_a_queue_of_dead_letters_works_in_a_child_and_after_it(url: str) -> None:
    queue = DeadLetterQueue(url, lambda task: None, log=False).sync
    queue.enqueue("before", {}, error=TimeoutError("a"))
    queue.start()

    def child() -> list[object]:
        state = queue.state
        queue.enqueue("child", {}, error=TimeoutError("b"))
        return [state, len(queue)]

    assert in_child(child) == ["stopped", 2]
    assert queue.state == "running"
    queue.enqueue("after", {}, error=TimeoutError("c"))
    assert sorted(queue) == ["after", "before", "child"]
    queue.close()


def test_a_fork_during_the_calls_of_other_threads_blocks_no_thread(app: Redrive) -> None:
    app.sync.start("hello", 0)
    ending, started = threading.Event(), list[str]()

    def start() -> None:
        while not ending.is_set():
            started.append(app.sync.start("hello", 1).id)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = [in_child(lambda: app.sync.start("hello", 2).id) for _ in range(5)]
    ending.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert app.sync.runs().count().number == 1 + len(started) + len(children)


def test_threads_that_fork_at_once_do_not_wait_for_each_other_forever(app: Redrive) -> None:
    app.sync.start("hello", 0)
    children: list[str] = []

    def fork() -> None:
        children.append(in_child(lambda: app.sync.start("hello", 1).id))

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert set(children) < ids_of(app)
    assert len(ids_of(app)) == 5


PROGRAM = """
import os, sys
from redrive import Redrive

app = Redrive(sys.argv[1], log=False)

@app.task
def hello(number: int) -> int:
    return number

for number in range(3):
    app.sync.start(hello, number)
    for uses_it in (True, False):
        child = os.fork()
        if child == 0:
            if uses_it:
                app.sync.start(hello, 10)
            sys.exit()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(len(app.sync.runs().list().runs))
app.sync.close()
"""


def test_a_child_that_ends_as_programs_do_disturbs_no_connection_of_the_parent(url: str) -> None:
    command = [sys.executable, "-X", "dev", "-c", PROGRAM, url]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (ended.returncode, ended.stdout) == (0, "6\n"), ended.stderr


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_child_that_does_nothing_disturbs_no_event_loop_of_the_parent(app: Redrive) -> None:
    """Finalizers of connections in the child would remove them from the selector of both processes."""

    async def look() -> int:
        async with asyncio.timeout(SECONDS / 2):
            return len((await app.runs().list()).runs)

    with asyncio.Runner() as parent:
        parent.run(look())
        in_child(gc.collect)
        assert parent.run(look()) == 0
        parent.run(app.close())


def test_an_async_application_that_was_opened_before_the_fork_works_in_the_child(app: Redrive) -> None:
    async def start() -> str:
        return (await app.start("hello", 1)).id

    with asyncio.Runner() as parent:
        parent.run(start())
        child = in_child(lambda: asyncio.run(_closing(app, start())))
        parent.run(start())
        runs = parent.run(app.runs().list()).runs
        parent.run(app.close())
    assert child in {run.id for run in runs}
    assert len(runs) == 3


async def _closing(app: Redrive, work: Any) -> Any:
    try:
        return await work
    finally:
        await app.close()


def test_the_child_opens_its_own_connections(live_postgres: PostgresServer) -> None:
    with live_postgres.new_database() as url:
        app = Redrive(url, log=False)
        app.sync.open()
        parent = backends(url)

        def child() -> list[int]:
            app.sync.open()
            return sorted(backends(url))

        assert parent < set(in_child(child))
        app.sync.close()


def backends(url: str) -> set[int]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'redrive' "
            "AND datname = current_database()"
        )
        return {row[0] for row in rows}


def test_sqlite_is_closed_during_the_fork(tmp_path: Path) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/work.db", log=False)
    app.sync.open()
    database = parts_of(app).database

    assert database._connection is not None  # type: ignore[attr-defined]
    assert in_child(lambda: open_files(tmp_path)) == []
    app.sync.runs().list()
    assert open_files(tmp_path)
    app.sync.close()


def open_files(folder: Path) -> list[str]:
    files = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]
    return [file for file in files if file.startswith(str(folder))]


def test_a_child_of_a_transaction_on_sqlite_is_refused(tmp_path: Path) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/work.db", log=False)

    def use() -> str:
        with pytest.raises(StoreError, match="forked during a transaction") as caught:
            app.sync.open()
        return type(caught.value).__name__

    async def fork_in_transaction() -> Any:
        await app.open()
        async with parts_of(app).database.transaction():
            result = in_child(use)
        await app.close()
        return result

    assert asyncio.run(fork_in_transaction()) == "StoreError"
    with apsw.Connection(str(tmp_path / "work.db")) as connection:
        assert connection.pragma("integrity_check") == "ok"
