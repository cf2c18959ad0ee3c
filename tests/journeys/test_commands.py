"""Starting runs: stored first, executed once, and also within the caller's own transaction."""

from __future__ import annotations

import asyncio
import gc

import asyncpg
import psycopg
import pytest
from tests.journeys.apps import counting, with_effect_in_database
from tests.journeys.world import PATIENCE, World, until
from tests.threads import background_threads

from redrive.errors import ConflictError, NotFoundError


async def test_ten_callers_give_the_same_command_and_it_is_executed_once(world: World) -> None:
    callers = [world.app(counting) for _ in range(10)]
    worker = await world.worker(counting)
    runs = await asyncio.gather(*[caller.start("count", 7, key="command-7") for caller in callers])
    assert len({run.id for run in runs}) == 1
    assert [await run.result(PATIENCE) for run in runs] == [7] * 10

    again = await callers[0].start("count", 7, key="command-7")
    assert again.id == runs[0].id
    with pytest.raises(ConflictError) as refused:
        await callers[1].start("count", 8, key="command-7")
    assert refused.value.run_id == again.id
    assert await (await callers[2].start("count", 9)).result(PATIENCE) == 9
    assert [each["number"] for each in world.journal.of("counted")] == [7, 9]
    assert await worker.stopped() == 0


async def test_a_command_is_part_of_the_transaction_of_its_caller(postgres_world: World) -> None:
    world = postgres_world
    app = world.app(counting)
    await app.open()
    await world.worker(counting)
    connection = await asyncpg.connect(world.url)
    try:
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                given_up = await app.start("count", 1, connection=connection)
                raise ZeroDivisionError
        async with connection.transaction():
            run = await app.start("count", 2, connection=connection)
            assert await world.places() == {}  # no other connection can see it yet
    finally:
        await connection.close()
    assert await run.result(PATIENCE) == 2
    with pytest.raises(NotFoundError):
        await given_up.view()
    assert [each["number"] for each in world.journal.of("counted")] == [2]


async def test_an_effect_in_the_same_database_happens_exactly_once(postgres_world: World) -> None:
    """A worker is killed just before and just after the commit of the effect and the completion."""
    world = postgres_world
    app = world.app(with_effect_in_database)
    await app.open()
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {world.schema}.bookings (account text, attempt integer)".encode())
        first = await world.worker(with_effect_in_database)
        accounts = ["before commit", "after commit", "undisturbed"]
        runs = [await app.start("book", account) for account in accounts]
        await until(lambda: world.journal.count("to be killed") == 2)
        assert await runs[-1].result(PATIENCE) == "booked undisturbed"
        await world.kill(first)
        await world.worker(with_effect_in_database)
        assert [await run.result(PATIENCE) for run in runs] == [f"booked {account}" for account in accounts]

        booked = connection.execute(f"SELECT account, attempt FROM {world.schema}.bookings".encode())
        assert dict(booked.fetchall()) == {"before commit": 2, "after commit": 1, "undisturbed": 1}
        assert connection.execute(f"SELECT count(*) FROM {world.schema}.bookings".encode()).fetchone() == (3,)
    outcomes = [[each.outcome for each in (await run.history()).attempts] for run in runs]
    assert outcomes == [["lost", "succeeded"], ["succeeded"], ["succeeded"]]


def test_a_program_without_an_event_loop(world: World) -> None:
    before = background_threads()
    app = world.app(counting)
    worker = world.start_worker(counting)
    try:
        run = app.sync.start("count", 7, key="command-7")
        assert run.result(PATIENCE) == 7
        assert run.state() == "SUCCESS"
        assert [each.what for each in run.history().events] == ["queued", "started", "succeeded", "finished"]
        assert app.sync.run(run.id).view().idempotency_key == "command-7"
        many = app.sync.start_many("count", range(5))
        assert [each.result(PATIENCE) for each in many] == list(range(5))
        late = app.sync.start("count", 8, delay=600)
        assert late.cancel() == "cancelled"
        assert late.wait(PATIENCE) == "CANCELLED"
        app.sync.queues(by="ada").pause("default")
        app.sync.queues(by="ada").resume("default")
        assert worker.exit_code is None
    finally:
        app.sync.close()
    for thread in background_threads() - before:
        thread.join(PATIENCE)
    assert background_threads() <= before
    gc.collect()  # Python would warn about an event loop that is still open
