"""Sync tasks: outside the event loop, in their own context, and abandoned if they take too long."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, app_at, check_ended, working

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.engine import executor
from redrive.engine.context import Context
from redrive.engine.invoker import Threads
from redrive.engine.worker import Worker
from redrive.errors import LeaseLostError
from redrive.model.event import TaskAbandoned, ThreadAbandoned
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.settings import Settings

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(0.02)))
PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE", default="nowhere")


async def test_a_sync_task_beyond_its_time_is_abandoned_and_retried_and_the_worker_continues(
    tmp_path: Path,
) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)
    release = threading.Event()
    ended: list[int] = []

    @app.task(timeout=0.15, retry=TWICE)
    def stuck(context: Context) -> int:
        if context.attempt == 1:
            release.wait(8)
            ended.append(1)
        return context.attempt

    @app.task
    def quick() -> str:
        return "quick"

    async with working(app):
        run = await app.start(stuck)
        assert await run.result(8) == 2
        assert not ended
        assert await (await app.start(quick)).result(8) == "quick"
        [first, _] = (await run.history()).attempts
        release.set()
        while not ended:
            await asyncio.sleep(0.01)
        assert await run.result(8) == 2
        await check_ended(app, 2)
    assert (first.category, first.outcome) == ("timeout", "failed")
    assert "took longer than 0.15 s" in str(first.message)
    [abandoned] = emitted.of(ThreadAbandoned)
    assert (abandoned.ref.run_id, abandoned.ref.attempt) == (run.id, 1)


async def test_a_timeout_of_the_tasks_own_is_no_abandoned_thread(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)

    @app.task(retry=TWICE)
    def slow(context: Context) -> int:
        if context.attempt == 1:
            raise TimeoutError("the database was slow")
        return 2

    async with working(app):
        run = await app.start(slow)
        assert await run.result(8) == 2
        [first, _] = (await run.history()).attempts
    assert first.message == "the database was slow"
    assert not emitted.of(ThreadAbandoned)


async def test_an_async_task_that_swallows_its_cancellation_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "CLEAN_UP_SECONDS", 0.1)
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)
    over = asyncio.Event()
    refused: list[type[BaseException]] = []

    @app.task(timeout=0.1, retry=TWICE)
    async def deaf(context: Context) -> int:
        while context.attempt == 1 and not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()
        try:
            context.progress(0.5)
        except LeaseLostError as error:
            refused.append(type(error))
        return context.attempt

    async with working(app):
        run = await app.start(deaf)
        try:
            assert await run.result(8) == 2
        finally:
            over.set()
        [first, _] = (await run.history()).attempts
        while not refused:
            await asyncio.sleep(0.01)
        assert await run.result(8) == 2
        await check_ended(app, 1)
    assert (first.category, first.outcome) == ("timeout", "failed")
    [abandoned] = emitted.of(TaskAbandoned)
    assert (abandoned.ref.run_id, abandoned.ref.attempt) == (run.id, 1)


async def test_a_step_that_waits_for_a_thread_is_not_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its function has not been called, so its timeout has not started."""
    monkeypatch.setattr(executor, "CLEAN_UP_SECONDS", 0.0)
    app = Redrive(f"sqlite:///{tmp_path / 'work.db'}", settings=Settings(worker_threads=1), log=False)
    emitted = EventCollector(app)
    began, release = threading.Event(), threading.Event()
    attempts: list[int] = []

    @app.task
    def long() -> None:
        began.set()
        release.wait(30)

    @app.task(timeout=0.05, retry=TWICE)
    def waits(context: Context) -> None:
        attempts.append(context.attempt)

    def is_overdue(worker: Worker) -> bool:
        contexts = [work.context for work in worker.in_flight.works if work.step.task == "waits"]
        return any(context is not None and context.remaining() <= 0.0 for context in contexts)

    async with working(app) as worker:
        try:
            await app.start(long)
            while not began.is_set():
                await asyncio.sleep(0.01)
            run = await app.start(waits)
            while not is_overdue(worker):
                await asyncio.sleep(0.01)
            worker.parts.executor.abandon_stubborn()
        finally:
            release.set()
        await run.result(30)
        await check_ended(app, 2)
    assert attempts == [1]
    assert not emitted.of(TaskAbandoned)


async def test_an_async_task_beyond_its_time_is_stopped(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    stopped: list[int] = []

    @app.task(timeout=0.05, retry=TWICE)
    async def stuck(context: Context) -> int:
        if context.attempt == 1:
            try:
                await asyncio.sleep(30)
            finally:
                stopped.append(1)
        return context.attempt

    async with working(app):
        run = await app.start(stuck)
        assert await run.result(8) == 2
        [first, _] = (await run.history()).attempts
    assert stopped == [1]
    assert first.category == "timeout"


async def test_sync_tasks_run_next_to_each_other_and_off_the_loop(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    together = threading.Barrier(8, timeout=8)
    threads: set[int] = set()

    @app.task
    def meet(number: int) -> int:
        threads.add(threading.get_ident())
        together.wait()
        return number

    async with working(app):
        runs = await app.start_many(meet, range(8))
        assert [await run.result(8) for run in runs] == list(range(8))
    assert len(threads) == 8
    assert threading.get_ident() not in threads


async def test_the_context_of_the_task_is_copied_into_the_thread(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")

    @app.task
    def look() -> str:
        before = PLACE.get()
        PLACE.set("changed in a thread")
        return before

    PLACE.set("here")
    async with working(app):
        assert await (await app.start(look)).result(8) == "here"
        assert await (await app.start(look)).result(8) == "here"
    assert PLACE.get() == "here"


async def test_many_more_tasks_than_threads(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    inside, most = 0, 0
    lock = threading.Lock()

    @app.task
    def work(number: int) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.002)
        with lock:
            inside -= 1
        return number

    async with working(app, concurrency=200):
        runs = await app.start_many(work, range(300))
        assert [await run.result(8) for run in runs] == list(range(300))
        await check_ended(app, 300)
    assert 1 < most <= parts_of(app).settings.worker_threads


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        StopIteration(1),
        GeneratorExit(),
        ValueError("x"),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_is_raised_in_a_thread_harms_no_thread_and_no_worker(
    error: Any, tmp_path: Path
) -> None:
    app = app_at(tmp_path / "work.db")
    policy = RetryPolicy(max_attempts=1, backoff=Backoff(Exponential(0.01)), max_holds=0)

    @app.task(retry=policy)
    def bad() -> None:
        raise error

    @app.task
    def good() -> str:
        return "good"

    async with working(app):
        run = await app.start(bad)
        assert await run.wait(8) == "DLQ_PENDING"
        assert await (await app.start(good)).result(8) == "good"
        await check_ended(app, 2)


# The threads themselves


def fixed(seconds: float) -> Any:
    return lambda: seconds


async def test_threads_are_used_again() -> None:
    threads = Threads(4)
    idents = {await threads.run(threading.get_ident, fixed(5.0)) for _ in range(20)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents
    threads.close()


async def test_there_are_never_more_than_allowed_and_an_abandoned_one_makes_room() -> None:
    threads = Threads(2)
    release = threading.Event()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await threads.run(lambda: release.wait(8), fixed(0.02))
    assert await asyncio.wait_for(threads.run(lambda: 5, fixed(5.0)), 5.0) == 5
    release.set()
    assert await threads.run(lambda: 6, fixed(5.0)) == 6
    threads.close()


async def test_its_time_starts_when_it_starts_and_not_while_it_waits_for_a_thread() -> None:
    threads = Threads(1)
    begun: list[int] = []

    def begin() -> float:
        begun.append(1)
        return 0.5

    first = asyncio.create_task(threads.run(lambda: time.sleep(0.2), begin))
    second = asyncio.create_task(threads.run(lambda: "second", begin))
    await asyncio.sleep(0.05)
    assert begun == [1]
    await first
    assert await second == "second"
    assert begun == [1, 1]
    threads.close()


async def test_a_cancelled_wait_frees_its_room() -> None:
    threads = Threads(1)
    release = threading.Event()
    waiting = asyncio.create_task(threads.run(lambda: release.wait(8), fixed(8.0)))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.wait_for(threads.run(lambda: 1, fixed(5.0)), 5.0) == 1
    release.set()
    threads.close()
