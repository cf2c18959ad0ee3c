"""Workers that are alive but unhealthy: the event loop is blocked, or a task does not stop."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import Any

from tests.journeys.apps import unwell
from tests.journeys.world import PATIENCE, World, until
from tests.store.build import ask

SHORT_LEASE: dict[str, Any] = {"lease_seconds": 2.0}
LOSSES = "SELECT losses FROM redrive.{} WHERE id = :id AND isolation = 2"


async def test_1_a_blocked_event_loop_loses_its_leases(world: World) -> None:
    """Another worker takes over the steps behind the blocking one; the worker reports which one blocks."""
    app = world.app(unwell)
    sign = world.folder / "go on"
    blocked = await app.start("wedge", str(sign))
    worker = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("wedge") == 1)
    others = [await app.start("fine", number, queue="default") for number in range(3)]

    async def says_so() -> bool:
        [view] = await app.workers().list()
        return view.blocking_step is not None and view.blocking_step.run_id == blocked.id

    await until(says_so)
    await until(lambda: has_no_lease(world, blocked.id), within=60.0)
    second = await world.worker(unwell, **SHORT_LEASE, workflows=["fine"])
    assert [await run.result(PATIENCE) for run in others] == [0, 1, 2]
    sign.touch()
    # A claim may have arrived while the loop was blocked: its lease expired too, and costs no failure.
    assert await blocked.result(PATIENCE) in (1, 2, 3)
    assert await worker.stopped() == 0
    assert await second.stopped() == 0


async def has_no_lease(world: World, run_id: str) -> bool:
    end = await leased_until(world, run_id)
    return end is None or end < time.time()  # one machine, so the database has the same clock


async def leased_until(world: World, run_id: str) -> float | None:
    table = "leases" if world.is_postgres else "runs"
    rows = await ask(world.database, f"SELECT leased_until FROM redrive.{table} WHERE id = :id", id=run_id)
    return float(rows[0][0]) if rows and rows[0][0] is not None else None


async def test_1_the_step_that_blocks_is_blamed_and_its_neighbors_are_not(world: World) -> None:
    """It blocks two workers; then it executes in isolation, and its neighbors never do."""
    app = world.app(unwell)
    sign = world.folder / "go on"
    blocked = await app.start("wedge", str(sign))
    first = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("wedge") == 1)
    second = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("wedge") == 2, within=60.0)
    third = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("wedge") == 3, within=60.0)
    [[losses]] = await ask(
        world.database, LOSSES.format("leases" if world.is_postgres else "runs"), id=blocked.id
    )
    assert losses == 2
    sign.touch()
    assert await blocked.result(PATIENCE) == 3
    for worker in (first, second, third):
        assert await worker.stopped() == 0


async def test_1_sigterm_ends_a_process_whose_event_loop_is_blocked(world: World) -> None:
    app = world.app(unwell)
    run = await app.start("wedge", str(world.folder / "never"))
    worker = await world.worker(unwell, grace_seconds=0.5)
    await until(lambda: world.journal.count("wedge") == 1)
    assert await worker.stopped() == 1
    assert f"step 'wedge' of run {run.id} blocks its event loop" in worker.log


async def test_a_short_block_keeps_the_leases(world: World) -> None:
    """The event loop is blocked for longer than a short lease, but not for long."""
    app = world.app(unwell)
    sign = world.folder / "go on"
    run = await app.start("wedge", str(sign))
    worker = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("wedge") == 1)
    for _ in range(2):  # two renewals while the loop is blocked
        expiry = await leased_until(world, run.id)
        assert expiry is not None
        await until(partial(is_renewed, world, run.id, expiry))
    sign.touch()
    assert await run.result(PATIENCE) == 1
    assert await worker.stopped() == 0


async def is_renewed(world: World, run_id: str, before: float) -> bool:
    end = await leased_until(world, run_id)
    assert end is not None
    return end > before


async def test_2_an_async_task_that_swallows_its_cancellation_times_out(world: World) -> None:
    app = world.app(unwell)
    sign = world.folder / "go on"
    run = await app.start("stubborn", str(sign))
    worker = await world.worker(unwell)
    assert await run.result(PATIENCE) == 2
    [first, _] = (await run.history()).attempts
    assert (first.category, first.outcome) == ("timeout", "failed")
    [abandoned] = worker.events("task.abandoned")
    assert (abandoned["run_id"], abandoned["attempt"]) == (run.id, 1)
    assert await worker.stopped() == 0  # although the first attempt is still running


async def test_2_a_task_that_does_not_stop_ends_with_the_process_before_another_worker_has_it(
    world: World,
) -> None:
    app = world.app(unwell)
    sign = world.folder / "never"
    run = await app.start("stubborn_for_long", str(sign))
    worker = await world.worker(unwell, grace_seconds=0.5)
    await until(lambda: world.journal.count("begins") == 1)
    other = await world.worker(unwell)
    assert await worker.stopped() == 0
    assert "1 task did not stop within the grace period" in worker.log
    assert worker.events("worker.stopped")[0]["requeued"] == 1
    assert await run.result(PATIENCE) == 2
    last = max(each.at for each in world.journal.of("at it"))
    [begun] = [each.at for each in world.journal.of("begins") if each["attempt"] == 2]
    assert last < begun
    assert await other.stopped() == 0


async def test_a_frozen_process_is_no_blocked_event_loop(world: World) -> None:
    """A machine that sleeps is no task's fault."""
    app = world.app(unwell)
    run = await app.start("stubborn_for_long", str(world.folder / "go on"))
    worker = await world.worker(unwell, **SHORT_LEASE)
    await until(lambda: world.journal.count("begins") == 1)
    await world.freeze(worker)
    await until(lambda: has_no_lease(world, run.id), within=60.0)
    os.kill(worker.pid, signal.SIGCONT)
    assert await run.result(PATIENCE) == 2
    [view] = await app.workers().list()
    assert view.blocking_step is None
    assert await worker.stopped() == 0
