"""A worker that is cut off from the database stops executing before its leases can end (I4).

The server is frozen: its connections stay open, and nothing responds. The handlers belong to a worker whose
leases another worker may take over when they end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.journeys import cut_off_tasks as tasks
from tests.journeys.world import until
from tests.servers import MortalPostgres, mortal_postgresql

import redrive
from redrive import Redrive
from redrive.calls.http import HttpClient
from redrive.engine.context import Context
from redrive.errors import LeaseLostError

ENDS = "SELECT id, leased_until - date_part('epoch', clock_timestamp()) FROM redrive.leases"


@pytest.fixture
def server() -> Iterator[MortalPostgres]:
    with mortal_postgresql() as server:
        yield server
        server.thaw()


def lease_ends(server: MortalPostgres) -> dict[str, float]:
    """Return when each run's lease ends, on the monotonic clock."""
    with psycopg.connect(server.url) as connection:
        now = time.monotonic()
        return {run.hex: now + seconds for run, seconds in connection.execute(ENDS).fetchall()}


async def beyond(moments: dict[str, float], more: float) -> None:
    while time.monotonic() < max(moments.values()) + more:
        await asyncio.sleep(0.1)


async def test_3_an_async_task_stops_before_its_lease_has_ended(server: MortalPostgres) -> None:
    await check_lengths(server, (5.0,))


async def test_3_an_async_task_stops_in_time_for_every_length_of_a_lease(server: MortalPostgres) -> None:
    await check_lengths(server, (5.0, 15.0, 30.0, 60.0))


async def check_lengths(server: MortalPostgres, lengths: tuple[float, ...]) -> None:
    last_sign: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        for seconds in lengths:
            app = Redrive(server.url, log=False, queues=[f"of {seconds:g}"])

            @app.task(timeout=600.0, queue=f"of {seconds:g}", name=f"ticking {seconds:g}")
            async def ticking(context: Context) -> None:
                while True:
                    last_sign[context.run_id] = time.monotonic()
                    await asyncio.sleep(0.02)

            await stack.enter_async_context(app)
            await stack.enter_async_context(
                app.worker(lease_seconds=seconds, queues=(f"of {seconds:g}",), grace_seconds=0.0)
            )
            await app.start(ticking)
        await until(lambda: len(last_sign) == len(lengths))
        await asyncio.sleep(max(lengths[0] / 2.0, 1.0))  # some leases have been renewed, some have not
        ends = lease_ends(server)
        server.freeze()
        await beyond(ends, 2.0)
        stopped = dict(last_sign)
        server.thaw()
    assert sorted(ends) == sorted(stopped)
    assert {run: stopped[run] - end for run, end in ends.items() if stopped[run] >= end} == {}


async def test_3_a_process_is_killed_before_its_lease_has_ended(
    server: MortalPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even while the event loop is blocked: the renewal thread kills the process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    app, file = tasks.app_at(server.url), tmp_path / "ticks"
    async with app, app.worker(lease_seconds=5.0, grace_seconds=0.0):
        await app.start(tasks.ticking, str(file))
        await until(file.exists)
        ends = lease_ends(server)
        server.freeze()
        time.sleep(max(ends.values()) - time.monotonic() + 1.0)
        last = float(file.read_text().split()[-1])
        server.thaw()
    assert last < max(ends.values())


async def test_3_a_thread_is_refused_everything_that_reaches_others(server: MortalPostgres) -> None:
    """It cannot be stopped, so its context is revoked: calls, starts, progress and complete raise."""
    app = Redrive(server.url, log=False)
    refused: dict[str, type[BaseException]] = {}
    began, done = threading.Event(), threading.Event()
    ended: list[float] = []
    client = HttpClient("http://127.0.0.1:9")

    @app.task
    def other() -> None: ...

    @app.task(timeout=600.0)
    def stubborn(context: Context) -> None:
        began.set()
        attempts: dict[str, Any] = {
            "call": lambda: redrive.call("fetch", lambda attempt: None),
            "request": lambda: client.request("GET", "/"),
            "start": lambda: app.sync.start(other),
            "progress": lambda: context.progress(0.5),
            "complete": lambda: context.complete(None, connection=None),
            "check": context.check,
        }
        while not context.cancelled:
            time.sleep(0.02)
        ended.append(time.monotonic())
        for name, attempt in attempts.items():
            try:
                attempt()
            except BaseException as error:
                refused[name] = type(error)
        done.set()

    async with app, app.worker(lease_seconds=5.0, grace_seconds=0.0):
        await app.start(stubborn)
        await until(began.is_set)
        ends = lease_ends(server)
        server.freeze()
        await until(done.is_set)
        server.thaw()
    client.close()
    assert ended[0] < max(ends.values())
    assert refused == dict.fromkeys(
        ("call", "request", "start", "progress", "complete", "check"), LeaseLostError
    )


async def test_4_finished_results_are_written_before_any_lease_is_taken_over(
    server: MortalPostgres,
) -> None:
    """The outage outlasts the lease, and one of two workers holds results. No run executes again."""
    app, other = Redrive(server.url, log=False), Redrive(server.url, log=False, queues=["other"])
    executed: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def counted(context: Context) -> int:
        executed.append(context.attempt)
        await go_on.wait()
        return context.attempt

    async with AsyncExitStack() as stack:
        for each in (app, other):
            await stack.enter_async_context(each)
        worker = await stack.enter_async_context(app.worker(lease_seconds=3.0, poll_seconds=0.05))
        await stack.enter_async_context(other.worker(lease_seconds=3.0, poll_seconds=0.05))
        runs = [await app.start(counted) for _ in range(3)]
        await until(lambda: len(executed) == len(runs))
        ends = lease_ends(server)
        server.kill()
        go_on.set()
        await until(lambda: worker.parts.recorder.pending == len(runs))
        await beyond(ends, 5.0)
        server.start()
        assert [await run.result(45) for run in runs] == [1, 1, 1]
        histories = [await run.history() for run in runs]
    assert [[each.outcome for each in history.attempts] for history in histories] == [["succeeded"]] * 3
    assert executed == [1, 1, 1]
