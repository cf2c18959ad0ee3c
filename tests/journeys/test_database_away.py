"""The database goes down under a running worker and comes back: the worker recovers on its own."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg
from tests.journeys.apps import two_halves
from tests.journeys.world import PATIENCE, World, until
from tests.servers import mortal_postgresql

from redrive import Redrive
from redrive.model.event import Event, StepStarted, StoreFailed, StoreRecovered

RUNS = 150


async def test_all_connections_are_cut_again_and_again(postgres_world: World) -> None:
    world = postgres_world
    app = world.app(two_halves)
    runs = await app.start_many("halves", range(RUNS))
    await app.close()
    worker = await world.worker(two_halves, concurrency=10, lease_seconds=3.0)

    with psycopg.connect(world.url, autocommit=True) as connection:
        cut = 0

        def cut_all_connections() -> bool:
            nonlocal cut
            cut += len(connection.execute(CUT, {"own": connection.info.backend_pid}).fetchall())
            return cut >= 20 and len(worker.events("store.failed")) >= 3

        await until(cut_all_connections)
        succeeded = f"SELECT count(*) FROM {world.schema}.runs WHERE state = 'SUCCESS'".encode()
        await until(lambda: connection.execute(succeeded).fetchone() == (RUNS,))

    assert [await run.result(PATIENCE) for run in runs] == [2 * number for number in range(RUNS)]
    for half, index in (("first half", 0), ("second half", 1)):
        executed = Counter(each["run"] for each in world.journal.of(half))
        for run in runs:
            attempts = [each for each in (await run.history()).attempts if each.step_index == index]
            assert executed[run.id] <= len(attempts)  # every execution has a record
            assert [each.outcome for each in attempts][:-1] == ["lost"] * (len(attempts) - 1)
    assert worker.events("store.recovered")
    assert await worker.stopped() == 0
    assert await world.places() == {"ended": RUNS}


async def test_the_server_is_killed_and_started_again() -> None:
    """One application starts, executes and waits; the server dies twice under it."""
    with mortal_postgresql() as server:
        app = Redrive(server.url, log=False)
        told: list[Event] = []
        app.listen(told.append)

        @app.task
        async def slowly(number: int) -> int:
            await asyncio.sleep(0.05)
            return 2 * number

        async with app, app.worker(concurrency=5, lease_seconds=2.0, poll_seconds=0.1):
            runs = await app.start_many(slowly, range(60))
            for _ in range(2):
                told.clear()
                await until(lambda: has(told, StepStarted))
                server.kill()
                await until(lambda: has(told, StoreFailed))
                server.start()
            assert [await run.result(PATIENCE) for run in runs] == [2 * number for number in range(60)]
            assert await (await app.start(slowly, 100)).result(PATIENCE) == 200
        assert has(told, StoreRecovered)


def has(told: list[Event], kind: type[Event]) -> bool:
    return any(isinstance(each, kind) for each in told)


CUT = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'redrive' AND datname = current_database() AND pid <> %(own)s"""
