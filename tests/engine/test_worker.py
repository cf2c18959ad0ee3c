"""The worker as a whole: the faults that it survives, and how it ends. Real time, a real file."""

from __future__ import annotations

import asyncio
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.engine.workbench import (
    PATIENCE,
    EventCollector,
    app_at,
    bench,
    new_app,
    seamed,
    settle,
    sql,
    working,
)

from redrive import Context, Redrive, RetryableError
from redrive.engine import claimer as claiming
from redrive.errors import InvalidValueError, StoreUnavailableError
from redrive.model.event import Event, StoreFailed, TaskUnknown, WorkerStopped
from redrive.parts import parts_of
from redrive.policy import BreakerPolicy
from redrive.store.leases import Holder
from redrive.store.sqlite import SqliteDatabase


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


async def test_a_database_that_can_be_read_but_not_written_is_waited_for() -> None:
    """A full disk, or a standby after a failover: hundreds of failures in a row do no harm."""
    app = new_app()
    emitted = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    async with seamed(app) as (test, seam):
        run = await app.start(work)
        seam.fail("complete", times=1500)
        await test.drain()
        assert await run.result() == 1
    waits = [each.wait for each in emitted.of(StoreFailed)]
    assert len(waits) == 1500
    assert 1.0 < max(waits) <= 2.0  # so that work continues soon after the database is back


@pytest.mark.parametrize("held", [True, False], ids=["held", "unknown"])
async def test_a_run_cancelled_in_the_meantime_ends_at_once(held: bool) -> None:
    """It doesn't loop because of a breaker or an unknown task."""
    app = new_app()
    emitted = EventCollector(app)

    @app.task(breaker="bank")
    async def pay() -> None: ...

    @app.task
    async def tell() -> None: ...

    app.workflow("buy", [pay, tell])
    async with bench(app) as test:
        run = await app.start("buy")
        if held:
            await app.breakers().force("bank", "OPEN", reason="test")
        else:
            parts_of(app).registry.tasks.pop("pay")
        await sql(app, "UPDATE runs SET cancel_requested_at = 1.0")
        await test.drain()
        assert await run.state() == "CANCELLED"
        assert await run.dead_letter() is None
    assert emitted.of(TaskUnknown) == []


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_probe_that_hangs_delays_no_other_work(
    is_async: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.engine.shared_breakers.PROBE_SECONDS", 2.0)
    app = app_at(tmp_path / "work.db")

    async def hang() -> None:
        await asyncio.sleep(3600)

    policy = BreakerPolicy(window_calls=1, minimum_calls=1, cool_down=0.5)
    app.breaker("bank", policy, probe=hang if is_async else lambda: time.sleep(2))

    @app.task(breaker="bank")
    async def pay() -> None:
        raise ConnectionError

    @app.task
    async def other() -> int:
        return 1

    async with working(app):
        await app.start(pay)
        await until(lambda: is_open(app))
        await app.start(pay)
        await until(lambda: is_held(app))
        await asyncio.sleep(0.7)
        assert await (await app.start(other, delay=0.1)).result(PATIENCE) == 1


async def is_open(app: Redrive) -> bool:
    return any(each.state == "OPEN" for each in await parts_of(app).breakers.all())


async def is_held(app: Redrive) -> bool:
    [[held]] = await sql(app, "SELECT count(*) FROM runs WHERE place = 'held'")
    return bool(held)


async def test_unsafe_work_that_never_started_is_released(tmp_path: Path) -> None:
    """It waits for a thread when the worker has to stop, so it cannot have taken effect."""
    app = app_at(tmp_path / "work.db")
    begun: list[int] = []

    @app.task(effect="unsafe")
    def pay(number: int, context: Context) -> None:
        begun.append(number)
        while not context.cancelled:
            time.sleep(0.01)

    async with working(app, grace_seconds=0.1) as worker:
        threads = worker.parts.invoker._threads
        assert threads is not None
        threads._room = asyncio.Semaphore(1)
        runs = [await app.start(pay, number) for number in range(4)]
        await until(lambda: len(worker.in_flight) == 4 and len(begun) == 1)
        worker.stop()
        await until(lambda: len(worker.in_flight) == 0)
        reasons = [letter and letter.reason for letter in [await run.dead_letter() for run in runs]]
    assert [reason for reason in reasons if reason] == ["not_repeatable"]
    assert reasons[begun[0]] == "not_repeatable"


async def test_a_worker_reports_soon_how_many_steps_it_executes(tmp_path: Path) -> None:
    """It does so long before its next heartbeat is due."""
    app = app_at(tmp_path / "work.db")
    over = asyncio.Event()

    @app.task
    async def wait() -> None:
        await over.wait()

    async def busy() -> int:
        [view] = await app.workers().list()
        return view.in_flight

    async with working(app, heartbeat_seconds=3_600.0, concurrency=4):
        for _ in range(6):
            await app.start(wait)

        async def is_full() -> bool:
            return await busy() == 4

        async def is_idle() -> bool:
            return await busy() == 0

        await until(is_full)
        over.set()
        await until(is_idle)


async def test_steps_that_wait_to_be_recorded_are_not_busy() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        run = await app.start(work)
        worker = parts_of(app).worker_in_test()
        await worker.parts.open()
        assert await worker.claimer.claim(1) == 1
        await asyncio.gather(*worker.parts.executor.tasks)
        assert len(worker.in_flight) == 1  # its record is not written yet
        await worker.maintenance.heartbeat("running")
        [view] = await app.workers().list()
        assert view.in_flight == 0
        await worker.work_off()
        assert await run.state() == "SUCCESS"
        await test.drain()


@pytest.mark.parametrize("effect", ["idempotent", "unsafe"])
async def test_work_that_a_stopping_worker_never_started_has_no_attempt(tmp_path: Path, effect: str) -> None:
    app = app_at(tmp_path / "work.db")
    begun: list[int] = []

    @app.task(effect=effect)
    def pay(number: int, context: Context) -> None:
        begun.append(number)
        while not context.cancelled:
            time.sleep(0.01)

    async with working(app, grace_seconds=0.1) as worker:
        threads = worker.parts.invoker._threads
        assert threads is not None
        threads._room = asyncio.Semaphore(1)
        runs = [await app.start(pay, number) for number in range(4)]
        await until(lambda: len(worker.in_flight) == 4 and len(begun) == 1)
        worker.stop()
        await until(lambda: len(worker.in_flight) == 0)
        views = [await run.view() for run in runs]
        attempts = [len((await run.history()).attempts) for run in runs]
    executed = begun[0]
    assert attempts == [int(number == executed) for number in range(4)]
    untouched = [view for number, view in enumerate(views) if number != executed]
    assert [(view.state, view.place, view.attempt) for view in untouched] == [("PENDING", "ready", 0)] * 3
    assert [(view.started_at, view.failures) for view in untouched] == [(None, 0)] * 3


async def test_a_task_that_ignores_its_cancellation_is_not_released_while_it_executes(tmp_path: Path) -> None:
    """The process continues without its worker. Another worker takes the run when its lease has expired."""
    app = app_at(tmp_path / "work.db")

    over = asyncio.Event()

    @app.task
    async def deaf() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except CancelledError:
                continue

    async with app, asyncio.timeout(PATIENCE):
        worker = app.worker(grace_seconds=60.0)
        running = asyncio.create_task(worker.run())
        run = await app.start(deaf)
        await until(lambda: len(worker.in_flight) == 1)
        worker.stop()
        worker.stop()
        await running
        left = await run.view()
        over.set()
        assert (left.place, left.failures, left.attempt) == ("leased", 0, 1)


async def test_a_worker_whose_task_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    beats: list[int] = []

    @app.task
    async def beat() -> None:
        while True:
            beats.append(1)
            await asyncio.sleep(0.01)

    async with app:
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await app.start(beat)
        await until(lambda: len(beats) > 3)
        running.cancel()
        await asyncio.wait({running})
        before = len(beats)
        await asyncio.sleep(0.1)
        assert len(beats) == before


async def test_a_listener_that_raises_cancellation_harms_nothing(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")

    def listener(event: Event) -> None:
        raise CancelledError

    app.listen(listener)

    @app.task
    async def flaky(context: Context) -> int:
        if context.attempt == 1:
            context.defer(0.0)
        return context.attempt

    async with working(app):
        assert await (await app.start(flaky)).result(PATIENCE) == 2


async def test_a_worker_waits_for_a_database_that_is_away_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    migrate, failures = SqliteDatabase.migrate, [1, 2]

    async def away(self: SqliteDatabase) -> None:
        if failures:
            failures.pop()
            raise StoreUnavailableError("not yet")
        await migrate(self)

    monkeypatch.setattr(SqliteDatabase, "migrate", away)
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await until(lambda: not failures)
    assert await (await app.start(work)).result(PATIENCE) == 1
    worker.stop()
    await running
    await app.close()
    assert {each.doing for each in emitted.of(StoreFailed)} == {"open"}
    assert len(emitted.of(WorkerStopped)) == 1


async def test_a_file_that_is_removed_under_the_worker_is_noticed(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)

    @app.task
    async def work() -> int:
        return 1

    async with working(app) as worker:
        await (await app.start(work)).result(PATIENCE)
        moved = [(path, path.with_suffix(".away" + path.suffix)) for path in tmp_path.iterdir()]
        for path, away in moved:
            path.rename(away)
        await until(lambda: bool(emitted.of(StoreFailed)))
        assert "was removed or replaced" in emitted.of(StoreFailed)[0].error
        for path, away in moved:
            away.rename(path)
        assert await (await app.start(work)).result(PATIENCE) == 1
        assert worker.health().healthy


@pytest.mark.parametrize("after_outage", [False, True])
async def test_leases_that_expired_in_an_outage_make_no_run_suspect(after_outage: bool) -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start(work)
        worker = parts_of(app).worker_in_test()
        await parts_of(app).store.leases.claim(
            "default", 1, Holder(token=1, worker="another", code_version="", ttl=60.0)
        )
        test.clock.advance(61)
        await worker.maintenance.maintain(blame=not after_outage)
        await worker.parts.recorder.flush()
        assert await sql(app, "SELECT losses, holds, place FROM runs") == [
            (0 if after_outage else 1, 1, "ready")
        ]


async def test_failed_probes_are_shared_by_many_runs() -> None:
    """A run that probes the breaker is not charged for a failure, and the probes rotate."""
    app = new_app()
    app.breaker("bank", BreakerPolicy(window_calls=1, minimum_calls=1, cool_down=10.0, probe_slots=1))
    asked: list[int] = []
    down = True

    @app.task(breaker="bank", max_attempts=2)
    async def pay(number: int) -> int:
        asked.append(number)
        if down:
            raise RetryableError from ConnectionError()
        return number

    async with bench(app) as test:
        runs = [await app.start(pay, number) for number in range(20)]
        await test.advance(400)
        assert len(set(asked)) > 10
        down = False
        await settle(test, app)
        assert {await run.state() for run in runs} == {"SUCCESS"}


@pytest.mark.parametrize("option", [{"lease_second": 3}, {"queues": []}, {"concurrency": 0}])
def test_odd_options_of_a_worker_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        new_app().worker(**option)


def test_an_object_that_is_not_a_task_is_rejected_with_a_hint() -> None:
    app = new_app()
    with pytest.raises(InvalidValueError, match=r"@app\.task missing"):
        app.workflow("flow", [print])  # type: ignore[list-item]


async def test_starting_an_object_that_is_not_a_task_is_rejected_with_a_hint() -> None:
    async with new_app() as app:
        with pytest.raises(InvalidValueError, match=r"@app\.task missing"):
            await app.start(print)  # type: ignore[call-overload]


@pytest.mark.parametrize(("alone", "expected"), [(0, (1, 0, 0)), (1, (0, 0, 1)), (2, (0, 1, 1))])
async def test_only_a_crash_during_isolated_execution_counts_as_isolated(
    alone: int, expected: tuple[int, int, int]
) -> None:
    """A suspect that was still waiting for its neighbors to end cannot have killed its worker."""
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start(work)
        worker = parts_of(app).worker_in_test()
        [claim] = await parts_of(app).store.leases.claim(
            "default", 1, Holder(token=1, worker="another", code_version="", ttl=60.0)
        )
        await sql(app, "UPDATE runs SET isolation = ?1", min(1, alone))
        if alone == 2:
            assert await parts_of(app).store.leases.begin_alone(claim)
        test.clock.advance(61)
        await worker.maintenance.reclaim()
        await worker.parts.recorder.flush()
        assert await sql(app, "SELECT losses, isolated_crashes, isolation FROM runs") == [expected]


async def test_a_worker_can_be_stopped_while_it_waits_for_its_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async def away(self: SqliteDatabase) -> None:
        raise StoreUnavailableError("not yet")

    monkeypatch.setattr(SqliteDatabase, "migrate", away)
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.05)
    worker.stop()
    async with asyncio.timeout(PATIENCE):
        await running


async def test_writing_records_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many unwritten records, the worker claims nothing; it claims as soon as they are written."""
    monkeypatch.setattr(claiming, "MAX_PENDING_RECORDS", 5)
    app = app_at(tmp_path / "work.db")

    @app.task
    async def work(number: int) -> int:
        return number

    async with working(app, concurrency=5, poll_seconds=600.0):
        runs = await app.start_many(work, range(50))
        assert [await run.result() for run in runs] == list(range(50))


async def test_an_attempt_that_was_lost_by_one_and_cannot_be_read_by_the_next_is_not_forgotten() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        run = await app.start(work)
        await parts_of(app).store.leases.claim(
            "default", 1, Holder(token=7, worker="dead", code_version="", ttl=1.0)
        )
        await sql(app, "UPDATE definitions SET body = '{}'")
        test.clock.advance(2.0)
        await test.drain()
        assert await sql(app, "SELECT attempt, place FROM runs") == [(1, "waiting")]
        assert await sql(app, "SELECT number, outcome, worker FROM attempts") == [(1, "lost", "dead")]
        assert await run.state() == "RUNNING"
