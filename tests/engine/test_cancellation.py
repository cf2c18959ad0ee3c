"""Cancelling a run: at once if it waits, soon if it executes, and no late result undoes it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import (
    EventCollector,
    app_at,
    bench,
    check_ended,
    lose_lease,
    new_app,
    seamed,
    settle,
    slots_in_use,
    working,
)

from redrive import Backoff, RetryPolicy
from redrive.engine.context import Context
from redrive.errors import NotFoundError, RunFailedError
from redrive.model.event import RunFinished
from redrive.policy import Exponential

AGAIN = RetryPolicy(max_attempts=5, backoff=Backoff(Exponential(1.0)))


@pytest.mark.parametrize("delay", [0.0, 60.0], ids=["ready", "waiting"])
async def test_a_run_that_is_not_executing_is_cancelled_at_once(delay: float) -> None:
    app = new_app()
    calls: list[int] = []

    @app.task
    async def work() -> None:
        calls.append(1)

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(work, delay=delay)
        assert await run.cancel() == "cancelled"
        assert await run.cancel() == "ended"
        await test.advance(120)
        assert await run.wait() == "CANCELLED"
        with pytest.raises(RunFailedError, match="ended with the status 'cancelled'"):
            await run.result()
        [step] = (await run.history()).steps
        assert step.state == "CANCELLED"
        await check_ended(app, 1)
    assert not calls


async def test_a_held_run_is_cancelled_at_once() -> None:
    app = new_app()

    @app.task(breaker="bank")
    async def pay() -> None: ...

    async with seamed(app, watch=True) as (test, _):
        await app.breakers().force("bank", "OPEN", reason="down")
        run = await app.start(pay)
        await test.drain()
        assert (await run.view()).place == "held"
        assert await run.cancel() == "cancelled"
        await app.breakers().force("bank", "CLOSED", reason="up")
        await test.advance(10)
        assert await run.state() == "CANCELLED"
        await check_ended(app, 1)


async def test_a_run_that_waits_for_its_retry_is_cancelled_at_once() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task(retry=AGAIN)
    async def down() -> None:
        calls.append(1)
        raise ConnectionError

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(down)
        await test.drain()
        assert await run.cancel() == "cancelled"
        await test.advance(60)
        await check_ended(app, 1)
    assert len(calls) == 1


async def test_a_finished_run_cannot_be_cancelled() -> None:
    app = new_app()

    @app.task
    async def work() -> int:
        return 1

    async with bench(app) as test:
        run = await app.start(work)
        await test.drain()
        assert await run.cancel() == "ended"
        assert await run.result() == 1
        with pytest.raises(NotFoundError):
            await app.run("nobody").cancel()


async def test_a_failure_after_the_request_is_not_retried() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task(retry=AGAIN)
    async def down(context: Context) -> None:
        calls.append(context.attempt)
        assert await app.run(context.run_id).cancel() == "requested"
        raise ConnectionError

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(down)
        await test.advance(120)
        assert await run.state() == "CANCELLED"
        await check_ended(app, 1)
    assert calls == [1]


@pytest.mark.parametrize(
    "options", [{}, {"queue": "other"}, {"concurrency": 1}], ids=["in place", "queue", "limit"]
)
async def test_no_further_step_is_started_after_the_request(options: dict[str, Any]) -> None:
    app = new_app()
    calls: list[str] = []

    @app.task
    async def first(context: Context) -> None:
        calls.append("first")
        assert await app.run(context.run_id).cancel() == "requested"

    @app.task(**options)
    async def second(_: None) -> None:
        calls.append("second")

    app.workflow("flow", [first, second])
    async with seamed(app, watch=True) as (test, _):
        run = await app.start("flow")
        await test.advance(120)
        state = await run.state()
        await check_ended(app, 1)
    assert (calls, state) == (["first"], "CANCELLED")


async def test_a_success_before_the_worker_learned_of_the_cancellation_counts() -> None:
    app = new_app()

    @app.task
    async def work(context: Context) -> int:
        assert await app.run(context.run_id).cancel() == "requested"
        return 1

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(work)
        await test.drain()
        assert await run.result() == 1
        await check_ended(app, 1)


async def test_a_cancelled_run_whose_worker_died_is_not_executed_again() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task(retry=AGAIN)
    async def dies(context: Context) -> None:
        calls.append(1)
        await app.run(context.run_id).cancel()
        await lose_lease(app, context.run_id)

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(dies)
        await settle(test, app)
        assert await run.state() == "CANCELLED"
        await check_ended(app, 1)
    assert calls == [1]


async def test_an_async_task_is_stopped_while_it_is_executed(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)
    began, tidied = asyncio.Event(), asyncio.Event()

    @app.task(concurrency=1)
    async def endless() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            tidied.set()

    async with working(app):
        run = await app.start(endless)
        await began.wait()
        assert await run.cancel() == "requested"
        assert await run.wait(5) == "CANCELLED"
        assert tidied.is_set()
        assert await slots_in_use(app) == {"task:endless": 0}
        [attempt] = (await run.history()).attempts
        await check_ended(app, 1)
    assert (attempt.outcome, attempt.reason) == ("cancelled", "cancelled")
    assert [each.state for each in emitted.of(RunFinished)] == ["CANCELLED"]


async def test_a_sync_task_is_stopped_where_it_listens(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    turns: list[int] = []

    @app.task
    def endless(context: Context) -> None:
        while True:
            turns.append(1)
            context.check()
            time.sleep(0.005)

    async with working(app):
        run = await app.start(endless)
        while not turns:
            await asyncio.sleep(0.01)
        assert await run.cancel() == "requested"
        assert await run.wait(5) == "CANCELLED"
        await asyncio.sleep(0.05)
        count = len(turns)
        await asyncio.sleep(0.05)
        assert len(turns) == count


async def test_a_task_that_does_not_want_to_stop_ends_by_itself(tmp_path: Path) -> None:
    """Its success is a success: a request can't undo finished work."""
    app = app_at(tmp_path / "work.db")
    began = asyncio.Event()

    @app.task
    async def stubborn() -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done nevertheless"
        return "slept"

    async with working(app):
        run = await app.start(stubborn)
        await began.wait()
        await run.cancel()
        assert await run.result(5) == "done nevertheless"
