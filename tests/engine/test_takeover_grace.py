"""The grace after an outage: it gives other workers time, and always ends."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.hand_clock import HandClock
from tests.engine.workbench import bench, new_app, sql

from redrive.engine.event_bus import EventBus
from redrive.engine.maintenance import MAX_RECLAIM_BATCH
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.takeover_grace import GRACE_SECONDS, MAX_COUNTED_SECONDS, TakeoverGrace
from redrive.errors import StoreUnavailableError
from redrive.parts import parts_of
from redrive.store.leases import Holder


async def _fail(retrier: StoreRetrier) -> None:
    async def action() -> None:
        raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        await retrier.run("claim", action, tries=1)


class Worker:
    """The passes of a worker, with a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self._retrier = StoreRetrier(self.clock, Random(0), EventBus())
        self.grace = TakeoverGrace(self.clock, self._retrier)

    async def fail(self, after: float = 0.0) -> None:
        self.clock.time += after
        await _fail(self._retrier)

    def passes(self, after: float) -> bool:
        """Return whether a pass that succeeds after this many seconds takes over leases."""
        self.clock.time += after
        takes_over = self.grace.seconds_left() == 0.0
        self.grace.reached(took_over=takes_over)
        return takes_over


async def test_without_an_outage_there_is_no_grace() -> None:
    worker = Worker()
    assert worker.passes(0.0)
    assert worker.passes(3600.0)


@pytest.mark.parametrize("already_working", [False, True])
async def test_the_grace_starts_when_the_database_is_back(already_working: bool) -> None:
    worker = Worker()
    assert not already_working or worker.passes(1.0)
    await worker.fail()
    await worker.fail(70.0)
    assert not worker.passes(1.0)
    assert worker.grace.seconds_left() == GRACE_SECONDS
    assert not worker.passes(GRACE_SECONDS - 0.5)
    assert worker.grace.seconds_left() == 0.5
    assert worker.passes(0.5)
    assert worker.passes(0.1)


async def test_an_outage_within_the_grace_does_not_count_towards_it() -> None:
    """A failover: the old primary is back for a second, then the new one takes a minute."""
    worker = Worker()
    await worker.fail(20.0)
    assert not worker.passes(1.0)
    assert not worker.passes(1.0)
    await worker.fail()
    await worker.fail(60.0)
    assert not worker.passes(1.0)
    assert worker.grace.seconds_left() == GRACE_SECONDS - 1.0 - MAX_COUNTED_SECONDS


async def test_the_grace_ends_although_something_fails_before_every_pass() -> None:
    worker = Worker()
    taken_over = []
    for _ in range(60):
        await worker.fail(0.5)
        taken_over.append(worker.passes(0.5))
    assert sum(taken_over) >= 5


async def test_no_batch_of_expired_leases_is_blamed_for_the_outage() -> None:
    """More leases have expired than one pass takes over."""
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start_many(work, [None] * (MAX_RECLAIM_BATCH + 1))
        worker = parts_of(app).worker_in_test()
        await parts_of(app).store.leases.claim("default", 1_000, Holder(1, "another", "", 60.0))
        test.clock.advance(61)
        for _ in range(2):
            await worker.maintenance._maintain()
            worker.maintenance.maintained_at = test.clock.monotonic()
        await worker.parts.recorder.flush()
        assert await sql(app, "SELECT DISTINCT place, losses FROM runs") == [("ready", 0)]


async def test_after_the_grace_no_run_is_blamed_for_the_outage() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        await app.start(work)
        worker = parts_of(app).worker_in_test()
        await parts_of(app).store.leases.claim("default", 1, Holder(1, "another", "", 60.0))
        test.clock.advance(61)
        await _fail(worker.parts.retrier)
        await worker.maintenance._maintain()
        assert await sql(app, "SELECT place, worker FROM runs") == [("leased", "another")]
        worker.maintenance.maintained_at = test.clock.monotonic()
        test.clock.advance(GRACE_SECONDS)
        await worker.maintenance._maintain()
        await worker.parts.recorder.flush()
        assert await sql(app, "SELECT place, losses FROM runs") == [("ready", 0)]
