"""A worker starts no run that it must not start, isolates suspects and leaks no secret."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.engine.workbench import PATIENCE, app_at, bench, new_app, seamed, sql, working

from redrive import Context
from redrive.engine import claimer as claiming
from redrive.errors import LeaseLostError
from redrive.parts import parts_of
from redrive.store.leases import Holder


async def test_a_stopping_worker_claims_no_isolated_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request to stop arrives while the worker waits for room."""
    app = app_at(tmp_path / "work.db")

    @app.task
    async def suspect() -> None: ...

    async with app, asyncio.timeout(PATIENCE):
        run = await app.start(suspect)
        await sql(app, "UPDATE runs SET place = 'alone', isolation = 1")
        worker = app.worker(poll_seconds=0.01)

        async def told_to_stop() -> int:
            worker.claimer.isolate(["default"])
            worker.stop()
            return 1

        monkeypatch.setattr(worker.claimer, "wait_for_room", told_to_stop)
        await worker.run()
        left = await run.view()
        [[epoch]] = await sql(app, "SELECT epoch FROM runs")
    assert (left.place, left.attempt) == ("alone", 0)
    assert epoch == 0, "claimed, and given back"


async def test_a_stopping_worker_queries_no_further_queue() -> None:
    app = new_app(queues=["first", "second", "third"])
    executed: list[str] = []

    @app.task
    async def work(context: Context) -> None:
        executed.append(context.run_id)

    async with seamed(app) as (_, seam):
        for queue in ("first", "second", "third"):
            await app.start(work, queue=queue)
        worker = parts_of(app).worker_in_test()

        async def stop() -> None:
            worker.stop()

        seam.after("claim", stop)
        assert await worker.claimer.claim(10) == 1
        await asyncio.gather(*worker.parts.executor.tasks)
        assert await sql(app, "SELECT count(*) FROM runs WHERE place = 'ready'") == [(2,)]
    assert len(executed) == 1


async def test_a_stopping_worker_starts_no_further_step(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    executed: list[str] = []

    @app.task
    async def first() -> None:
        executed.append("first")
        worker.stop()

    @app.task
    async def second() -> None:
        executed.append("second")

    app.workflow("flow", [first, second])
    async with app, asyncio.timeout(PATIENCE):
        worker = app.worker(poll_seconds=0.01)
        run = await app.start("flow")
        await worker.run()
        left = await run.view()
    assert executed == ["first"]
    assert (left.place, left.step_index, left.attempt) == ("ready", 1, 0)


async def test_a_stopping_worker_releases_work_that_never_started(tmp_path: Path) -> None:
    """It waits for a thread, and its function was never called."""
    app = app_at(tmp_path / "work.db")
    over = threading.Event()

    @app.task
    def deaf() -> None:
        over.wait(PATIENCE)

    async with app, asyncio.timeout(PATIENCE):
        worker = app.worker(grace_seconds=0.1)
        threads = worker.parts.invoker._threads
        assert threads is not None
        threads._room = asyncio.Semaphore(1)
        runs = [await app.start(deaf) for _ in range(2)]
        working = asyncio.create_task(worker.run())
        while len(worker.in_flight) < 2:
            await asyncio.sleep(0.01)
        worker.stop()
        await working
        left = sorted([(await run.view()).place for run in runs])
        over.set()
    assert left == ["leased", "ready"]


async def test_a_stopping_worker_keeps_leases_of_executing_work(tmp_path: Path) -> None:
    """Another worker would execute it at the same time."""
    app = app_at(tmp_path / "work.db")
    over = asyncio.Event()

    @app.task
    async def deaf() -> None:
        worker.stop()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async with app, asyncio.timeout(PATIENCE):
        run = await app.start(deaf)
        worker = app.worker(grace_seconds=0.1)
        await worker.run()
        left = await run.view()
        over.set()
    assert (left.place, left.failures) == ("leased", 0)


async def test_work_that_still_executes_after_its_worker_has_stopped_is_revoked(tmp_path: Path) -> None:
    """Nothing renews its lease any longer, so another worker may execute it."""
    app = app_at(tmp_path / "work.db")
    over = asyncio.Event()
    refused = asyncio.get_running_loop().create_future()

    @app.task
    async def deaf(context: Context) -> None:
        worker.stop()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()
        try:
            context.progress(0.5)
        except BaseException as error:
            refused.set_result(type(error))
        else:
            refused.set_result(None)

    async with app, asyncio.timeout(PATIENCE):
        await app.start(deaf)
        worker = app.worker(grace_seconds=0.1)
        await worker.run()
        over.set()
        assert await refused is LeaseLostError


async def test_an_isolated_run_does_not_start_next_to_other_work(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    over = asyncio.Event()
    beside: list[bool] = []

    @app.task
    async def long() -> None:
        await over.wait()

    @app.task
    async def suspect() -> None:
        beside.append(not over.is_set())

    async with working(app) as worker:
        await app.start(long)
        while not worker.parts.executor.tasks:
            await asyncio.sleep(0.01)
        run = await app.start(suspect, delay=3600.0)
        await sql(app, "UPDATE runs SET place = 'alone', isolation = 1 WHERE id = ?1", run.id)
        while (await run.view()).place == "alone":
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        over.set()
        await run.result(5)
    assert beside == [False]


async def test_nothing_is_claimed_while_too_much_waits_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    monkeypatch.setattr(claiming, "MAX_PENDING_RECORDS", 3)
    async with bench(app):
        await app.start_many(work, [None] * 5)
        worker = parts_of(app).worker_in_test()
        await worker.claimer.claim(3)
        await asyncio.gather(*worker.parts.executor.tasks)

        assert worker.claimer.free() == 0
        await worker.parts.recorder.flush()
        assert worker.claimer.free() > 0


async def test_secrets_in_progress_are_redacted_i9(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    seen = asyncio.Event()

    @app.task
    async def long(context: Context) -> None:
        context.progress(0.5, "logged in with password=hunter2hunter2")
        await seen.wait()

    async with working(app):
        run = await app.start(long)
        runs = parts_of(app).store.runs
        while (progress := (await runs.get(run.id, run.org)).progress) is None:
            await asyncio.sleep(0.01)
        seen.set()
        await run.result(5)
    assert "logged in" in progress
    assert "hunter2" not in progress


async def test_leases_that_expired_during_an_outage_are_blamed_on_no_run() -> None:
    """Longer than two thirds of a lease: no worker could renew a lease in that time."""
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start(work)
        worker = parts_of(app).worker_in_test()
        await parts_of(app).store.leases.claim("default", 1, Holder(1, "another", "", 60.0))
        test.clock.advance(61)
        await worker.maintenance._maintain()
        await worker.parts.recorder.flush()
        assert await sql(app, "SELECT place, losses FROM runs") == [("ready", 0)]
