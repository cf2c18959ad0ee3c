"""SIGTERM in the middle: the worker claims nothing more, and finishes or returns runs in progress."""

from __future__ import annotations

import psycopg
import pytest
from tests.journeys.apps import mail_and_shop, stuck_at_first, until_told
from tests.journeys.world import PATIENCE, World, until

NEVER_TO_BE_WAITED_FOR = 600.0


async def test_a_stopping_worker_finishes_its_work_in_progress(world: World) -> None:
    app = world.app(until_told)
    sign = world.folder / "go on"
    worker = await world.worker(until_told, concurrency=1, grace_seconds=NEVER_TO_BE_WAITED_FOR)
    begun = await app.start("charge", str(sign))
    await until(lambda: world.journal.count("charging") == 1)

    worker.ask_to_stop()
    await until(lambda: worker.events("worker.stopping"))
    later = await app.start("charge", str(sign))
    sign.touch()
    assert await worker.exited() == 0

    assert await begun.result(PATIENCE) == "charged by attempt 1"
    untouched = await later.view()
    assert (untouched.state, untouched.place, untouched.attempt) == ("PENDING", "ready", 0)
    assert worker.events("worker.stopping")[0]["cause"] == "SIGTERM"
    assert worker.events("worker.stopped")[0]["requeued"] == 0
    assert await world.places() == {"ended": 1, "ready": 1}
    [row] = await app.workers().list()
    assert (row.state, row.in_flight) == ("stopped", 0)


@pytest.mark.parametrize("task", ["charge", "charge_in_thread"])
async def test_work_that_does_not_finish_in_time_is_released_uncharged(world: World, task: str) -> None:
    app = world.app(stuck_at_first)
    worker = await world.worker(stuck_at_first, grace_seconds=0.3)
    run = await app.start(task, 7)
    await until(lambda: world.journal.count("charging") == 1)
    assert await worker.stopped() == 0
    await assert_given_back(world, run.id)
    assert worker.events("worker.stopped")[0]["requeued"] == 1

    await world.worker(stuck_at_first)
    assert await run.result(PATIENCE) == "charged by attempt 2"
    assert [each.outcome for each in (await run.history()).attempts] == ["released", "succeeded"]


async def assert_given_back(world: World, run_id: str) -> None:
    [run] = await world.runs()
    assert (run.id, run.place, run.step_state) == (run_id, "ready", "PENDING")
    assert (run.failures, run.attempt) == (0, 1)


async def test_a_second_sigterm_gives_it_back_at_once(world: World) -> None:
    app = world.app(stuck_at_first)
    worker = await world.worker(stuck_at_first, grace_seconds=NEVER_TO_BE_WAITED_FOR)
    run = await app.start("charge", 7)
    await until(lambda: world.journal.count("charging") == 1)
    worker.ask_to_stop()
    await until(lambda: worker.events("worker.stopping"))
    assert worker.exit_code is None
    worker.ask_to_stop()
    assert await worker.exited() == 0
    await assert_given_back(world, run.id)


async def test_a_worker_with_nothing_to_do_stops(world: World) -> None:
    app = world.app(mail_and_shop)
    await app.open()
    worker = await world.worker(mail_and_shop, grace_seconds=NEVER_TO_BE_WAITED_FOR, poll_seconds=60.0)
    assert await worker.stopped() == 0


async def test_a_worker_that_has_handed_work_on_to_another_queue_does_not_wait_for_it(world: World) -> None:
    app = world.app(mail_and_shop)
    worker = await world.worker(mail_and_shop, queues=["default"], grace_seconds=NEVER_TO_BE_WAITED_FOR)
    run = await app.start("order", 7)
    await until(lambda: worker.events("step.succeeded"))
    assert await worker.stopped() == 0

    waiting = await run.view()
    assert (waiting.place, waiting.queue, waiting.step_index) == ("ready", "mail", 1)
    await world.worker(mail_and_shop, queues=["mail"])
    assert await run.result(PATIENCE) == "sent 700"


async def test_a_claim_that_a_stop_interrupts_takes_nothing_later(postgres_world: World) -> None:
    """The claim waits for a lock; when the lock is free, the worker has been gone for long (I15)."""
    world = postgres_world
    app = world.app(stuck_at_first)
    await app.open()
    with psycopg.connect(world.url, autocommit=True) as connection:
        for statement in WAIT_WITH_EACH_LEASE:
            connection.execute(statement.format(schema=world.schema).encode())

        def waiting() -> int:
            [(number,)] = connection.execute(WAITING).fetchall()
            return int(number)

        connection.execute("SELECT pg_advisory_lock(15)")
        worker = await world.worker(stuck_at_first, grace_seconds=1.0)
        await app.start_many("charge", range(5))
        await until(lambda: waiting() > 0)
        assert await worker.stopped() == 0
        [process] = connection.execute(PROCESS).fetchall() or [(0,)]
        connection.execute("SELECT pg_advisory_unlock(15)")
        await until(lambda: connection.execute(EXECUTING, process).fetchone() == (0,))

    assert await world.places() == {"ready": 5}


WAIT_WITH_EACH_LEASE = (
    """
    CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(15); RETURN NULL; END'
    """,
    "CREATE TRIGGER wait BEFORE INSERT ON {schema}.leases EXECUTE FUNCTION {schema}.wait()",
)
PROCESS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 15 AND NOT granted"
WAITING = f"SELECT count(*) FROM ({PROCESS}) AS found"
EXECUTING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid = %s"
