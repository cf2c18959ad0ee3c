"""Leases: renewed next to the work, and a worker that cannot renew them fences itself (P7, I4)."""

from __future__ import annotations

import asyncio
import gc
import time
from multiprocessing import get_context
from pathlib import Path
from threading import Event

import apsw
import pytest
from tests.engine.workbench import (
    EventCollector,
    Seam,
    app_at,
    bench,
    check_ended,
    lose_lease,
    new_app,
    seamed,
    settle,
    sql,
    working,
)

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.in_flight import RunLease, renew_runs
from redrive.engine.lease_renewer import LeaseRenewer
from redrive.engine.work import Interruption
from redrive.errors import StoreUnavailableError
from redrive.model.event import LeaseLost, StepReleased, WorkerStopped
from redrive.model.worker import BlockingStep
from redrive.parts import parts_of, rewire
from redrive.policy import Exponential
from redrive.store.database import Session
from redrive.store.leases import Holder
from redrive.store.sqlite import SqliteDatabase
from redrive.testing import EPOCH

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(0.05)))


async def test_it_renews_only_leases_older_than_a_third_of_their_time() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        lost: list[RunLease] = []
        lease_renewer = LeaseRenewer("test", parts_of(app).database, test.clock, renew_runs, lost.extend)
        run = await app.start(work)
        [claim] = await parts_of(app).store.leases.claim("default", 1, Holder(7, "me", "", 60.0))
        lease_renewer.hold((claim.id, claim.token), 60.0, test.clock.monotonic())

        async def expiry() -> float:
            [[expires]] = await sql(app, "SELECT leased_until FROM runs")
            return float(expires) - EPOCH

        for seconds, expected in ((19.9, 60.0), (0.1, 80.0), (19.9, 80.0), (0.2, 100.1)):
            test.clock.advance(seconds)
            await lease_renewer.renew(parts_of(app).database)
            assert round(await expiry(), 6) == expected
        lease_renewer.drop((claim.id, claim.token))
        test.clock.advance(59.0)
        await lease_renewer.renew(parts_of(app).database)
        assert round(await expiry(), 6) == 100.1
        assert not lost
        assert run.id == claim.id


async def test_it_reports_leases_that_another_holder_has() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        lost: list[RunLease] = []
        lease_renewer = LeaseRenewer("test", parts_of(app).database, test.clock, renew_runs, lost.extend)
        await app.start_many(work, [None] * 3)
        claims = await parts_of(app).store.leases.claim(
            "default", 3, Holder(token=7, worker="me", code_version="", ttl=60.0)
        )
        for claim in claims:
            lease_renewer.hold((claim.id, claim.token), 60.0, test.clock.monotonic())
        await lose_lease(app, claims[1].id)
        test.clock.advance(20.0)
        await lease_renewer.renew(parts_of(app).database)
        assert lost == [(claims[1].id, 7)]
        test.clock.advance(20.0)
        await lease_renewer.renew(parts_of(app).database)
        assert len(lost) == 1


async def test_during_an_outage_a_lease_is_given_up_just_before_it_expires() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with seamed(app) as (test, seam):
        lost: list[RunLease] = []
        lease_renewer = LeaseRenewer("test", parts_of(app).database, test.clock, renew_runs, lost.extend)
        await app.start(work)
        [claim] = await parts_of(app).store.leases.claim("default", 1, Holder(7, "me", "", 60.0))
        lease_renewer.hold((claim.id, claim.token), 60.0, test.clock.monotonic())
        seam.down = True
        for _ in range(5):
            test.clock.advance(11.7)
            await lease_renewer.renew(parts_of(app).database)
        assert not lost
        test.clock.advance(0.6)
        await lease_renewer.renew(parts_of(app).database)
        assert lost == [(claim.id, 7)]


def faulty(path: Path) -> tuple[Redrive, Seam]:
    app = app_at(path)
    database = parts_of(app).database
    assert isinstance(database, SqliteDatabase)
    seam = Seam(database)
    rewire(app, seam, SYSTEM_CLOCK, parts_of(app).random)
    return app, seam


async def test_long_work_keeps_its_lease(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    emitted = EventCollector(app)

    @app.task
    async def long(context: Context) -> int:
        await asyncio.sleep(1.0)
        return context.attempt

    async with working(app, lease_seconds=0.3):
        run = await app.start(long)
        assert await run.result(8) == 1
    assert not emitted.of(LeaseLost)
    assert not emitted.of(StepReleased)


async def test_a_blocked_event_loop_keeps_its_leases(tmp_path: Path) -> None:
    """Renewal does not depend on the event loop that executes the work."""
    app, other = app_at(tmp_path / "work.db"), app_at(tmp_path / "work.db")
    calls: list[int] = []
    kept: list[bool] = []

    @app.task
    async def rude(context: Context) -> int:
        calls.append(context.attempt)
        time.sleep(2.0)
        [[until]] = apsw.Connection(str(tmp_path / "work.db")).execute("SELECT leased_until FROM runs")
        kept.append(until > time.time())
        return context.attempt

    async with working(app, lease_seconds=1.0):
        run = await app.start(rude)
        while not calls:
            await asyncio.sleep(0.01)
        assert await parts_of(other).store.leases.reclaim(5, 1.0, 10) == []
        assert await run.result(8) == 1
    await other.close()
    assert (calls, kept) == ([1], [True])


async def test_a_worker_that_cannot_renew_fences_itself(tmp_path: Path) -> None:
    """The worker cancels the handler and writes nothing, and the step executes again afterwards."""
    app, seam = faulty(tmp_path / "work.db")
    emitted = EventCollector(app)
    stopped: list[float] = []
    began = asyncio.Event()

    @app.task(retry=TWICE)
    async def long(context: Context) -> int:
        if context.attempt > 1:
            return context.attempt
        began.set()
        start = time.monotonic()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append(time.monotonic() - start)
        return 0

    async with working(app, lease_seconds=0.4):
        run = await app.start(long)
        await began.wait()
        seam.another_down = True
        while not stopped:
            await asyncio.sleep(0.01)
        seam.another_down = False
        assert await run.result(8) == 2
        [first, _] = (await run.history()).attempts
        await check_ended(app, 1)
    assert 0.3 <= stopped[0] <= 2.0
    assert first.outcome == "lost"
    assert 1 <= len(emitted.of(LeaseLost)) <= 2
    assert [each.requeued for each in emitted.of(WorkerStopped)] == [0]


async def test_a_step_that_keeps_killing_workers_becomes_a_dead_letter() -> None:
    """Twice next to others, then three times in isolation (RELIABILITY); an innocent neighbor is spared."""
    app = new_app()
    calls: list[tuple[str, int]] = []

    @app.task
    async def killer(context: Context) -> None:
        calls.append(("killer", context.attempt))
        await lose_lease(app, context.run_id)

    @app.task
    async def innocent(context: Context) -> str:
        calls.append(("innocent", context.attempt))
        return "alive"

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(killer)
        other = await app.start(innocent)
        await settle(test, app)
        letter = await run.dead_letter()
        assert await other.result() == "alive"
        await check_ended(app, 2)
    assert letter is not None
    assert (letter.reason, letter.attempts, letter.category) == ("worker_crashed", 5, "resource")
    assert "5 workers crashed while executing this step, 3 of them while" in letter.message
    assert [name for name, _ in calls].count("killer") == 5


async def test_a_lost_lease_costs_no_attempt() -> None:
    app = new_app()

    @app.task(retry=RetryPolicy(max_attempts=1, backoff=Backoff(Exponential(1.0))))
    async def unlucky(context: Context) -> int:
        if context.attempt < 5:
            await lose_lease(app, context.run_id)
        return context.attempt

    async with bench(app) as test:
        assert await test.execute(unlucky) == 5


async def test_unsafe_work_with_a_lost_lease_is_not_repeated() -> None:
    app = new_app()

    @app.task(effect="unsafe")
    async def pay(context: Context) -> None:
        await lose_lease(app, context.run_id)

    async with bench(app) as test:
        run = await app.start(pay)
        await settle(test, app)
        letter = await run.dead_letter()
        await check_ended(app, 1)
    assert letter is not None
    assert (letter.reason, letter.attempts) == ("not_repeatable", 1)


async def test_the_time_that_a_lonely_step_takes_does_not_pass_by_itself() -> None:
    """While a suspect executes in isolation, the worker waits for it without moving the clock."""
    app = new_app()
    moments: list[float] = []

    @app.task
    async def suspect(context: Context) -> None:
        moments.append(test.clock.time)
        for _ in range(50):
            await asyncio.sleep(0)
        moments.append(test.clock.time)
        if context.attempt <= 2:
            await lose_lease(app, context.run_id)

    async with bench(app) as test:
        await app.start(suspect)
        for _ in range(6):
            await test.drain()
    assert len(moments) == 6
    assert moments == [0.0] * 6


async def test_a_run_that_escapes_the_executor_is_not_leased_forever(tmp_path: Path) -> None:
    """No code can judge the row: the worker stops renewing its lease, and other work continues."""
    app = app_at(tmp_path / "work.db")

    @app.task
    async def bad() -> None:
        raise ConnectionError

    @app.task
    async def good() -> str:
        return "good"

    async with working(app, lease_seconds=0.2, timeout=5.0) as worker:
        run = await app.start(bad, delay=0.1)
        await sql(app, "UPDATE runs SET policy_override = 'not json'")
        assert await (await app.start(good)).result(3) == "good"
        await asyncio.sleep(1.0)
        left = await run.view()
        assert left.place != "leased" or left.attempt > 1, left
        assert await (await app.start(good)).result(3) == "good"
        assert len(worker.in_flight) <= 1


async def test_a_lease_found_lost_counts_as_expired_before_the_loop_learns_of_it() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        lost: list[RunLease] = []
        lease_renewer = LeaseRenewer("test", parts_of(app).database, test.clock, renew_runs, lost.extend)
        run = await app.start(work)
        [claim] = await parts_of(app).store.leases.claim("default", 1, Holder(7, "me", "", 60.0))
        lease_renewer.hold((claim.id, claim.token), 60.0, test.clock.monotonic())
        await lose_lease(app, run.id)
        test.clock.advance(20.0)
        assert not lease_renewer.has_expired((claim.id, claim.token))
        await lease_renewer.renew(parts_of(app).database)
        assert lost == [(claim.id, claim.token)]
        assert lease_renewer.has_expired((claim.id, claim.token))


async def test_claims_that_come_while_it_looks_do_not_end_it() -> None:
    """Both threads use the same leases, and Python may switch threads wherever it collects garbage."""
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        lease_renewer = LeaseRenewer(
            "test", parts_of(app).database, test.clock, renew_runs, lambda keys: None
        )
        await app.start(work)
        [claim] = await parts_of(app).store.leases.claim(
            "default", 1, Holder(token=7, worker="me", code_version="", ttl=60.0)
        )
        for token in range(5_000):
            lease_renewer.hold((claim.id, token), 60.0, test.clock.monotonic())
        came: list[int] = []

        def claimed_meanwhile(phase: str, details: dict[str, int]) -> None:
            came.append(5_000 + len(came))
            lease_renewer.hold((claim.id, came[-1]), 60.0, test.clock.monotonic())

        threshold = gc.get_threshold()
        gc.callbacks.append(claimed_meanwhile)
        gc.enable()
        try:
            test.clock.advance(30)  # all are due: the list is long enough for a garbage collection
            gc.set_threshold(20)  # a worker that starts in another thread raises it
            await lease_renewer.renew(parts_of(app).database)
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(claimed_meanwhile)
        assert came


class SilentLoop:
    """A watch that reports a loop that doesn't answer, while the database is away."""

    awaits_answer = True

    def __init__(self) -> None:
        self.reports = 0

    def vouches(self) -> bool:
        return False

    async def report(self, session: Session) -> None:
        self.reports += 1
        raise StoreUnavailableError("the database is away")


async def test_a_silent_loop_is_reported_even_after_its_leases_were_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread repeats a failed report, and does not fail itself."""
    monkeypatch.setattr("redrive.engine.lease_renewer.WATCH_SECONDS", 0.02)
    watch, lost, database = SilentLoop(), Event(), parts_of(new_app()).database
    renewer = LeaseRenewer("test", database, SYSTEM_CLOCK, renew_runs, lambda leases: lost.set(), watch)
    renewer.hold(("id", 7), 0.1, SYSTEM_CLOCK.monotonic())
    renewer.start()
    async with asyncio.timeout(30.0):
        while not lost.is_set():
            await asyncio.sleep(0.01)
        before = watch.reports
        while watch.reports < before + 3:
            await asyncio.sleep(0.01)
    renewer.stop()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_process_that_has_just_ended_does_not_keep_other_leases_from_being_given_up() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    ended = get_context("spawn").Process()
    ended.close()
    async with bench(app) as test:
        await app.start_many(work, [None] * 2)
        parts = parts_of(app).worker_in_test().parts
        claims = await parts.store.leases.claim("default", 2, Holder(7, "me", "", 60.0))
        works = [await parts.works.of(claim) for claim in claims]
        killed: list[bool] = []
        works[0].kill, works[1].kill = ended.kill, lambda: killed.append(True)
        for each in works:
            parts.in_flight.add(each, test.clock.monotonic())
        test.clock.advance(60.0)
        parts.in_flight.lease_renewer.give_up_expired()
        await asyncio.sleep(0)
    assert killed == [True]
    assert [each.interruption for each in works] == [Interruption.LOST] * 2


async def test_only_the_step_that_blocks_the_event_loop_is_blamed() -> None:
    """Its neighbors could not run, so they are not suspects to isolate."""
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start_many(work, [None] * 2)
        store = parts_of(app).store
        [culprit, neighbor] = await store.leases.claim("default", 2, Holder(7, "blocked", "", 60.0))
        await store.limits.heartbeat("blocked", "", "[]", 10, 2, "running")
        step = BlockingStep(culprit.id, culprit.org, "work", "work", "work", 1)
        await store.limits.note_blocked("blocked", 70.0, step)
        test.clock.advance(61.0)
        worker = parts_of(app).worker_in_test()
        await worker.maintenance.reclaim()
        await worker.parts.recorder.flush()
        losses = await sql(app, "SELECT id, losses FROM runs")
    assert {row[0]: row[1] for row in losses} == {culprit.id: 1, neighbor.id: 0}


async def test_a_heartbeat_ends_the_report_of_a_blocked_event_loop() -> None:
    app = new_app()
    async with bench(app):
        limits = parts_of(app).store.limits
        await limits.heartbeat("me", "", "[]", 10, 2, "running")
        await limits.note_blocked("me", 70.0, None)
        [blocked] = await limits.workers()
        assert (blocked.seconds_blocked, blocked.blocking_step) == (70.0, None)
        await limits.heartbeat("me", "", "[]", 10, 2, "running")
        [well] = await limits.workers()
    assert (well.seconds_blocked, well.blocking_step) == (None, None)
