"""Several workers, organizations, queues and limits share the work."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.journeys.apps import counting, limited, mail_and_shop, quick
from tests.journeys.journal import Entry, note
from tests.journeys.world import PATIENCE, World, until

from redrive.app import Redrive
from redrive.engine.context import Context


async def test_two_workers_share_the_work_and_each_run_succeeds_exactly_once(world: World) -> None:
    app = world.app(counting)
    workers = [await world.worker(counting, concurrency=3) for _ in range(2)]
    runs = await app.start_many("count", range(60))
    assert [await each.result(PATIENCE) for each in runs] == list(range(60))

    counted = world.journal.of("counted")
    assert Counter(each["run"] for each in counted) == {each.id: 1 for each in runs}
    assert {each.process for each in counted} == {each.pid for each in workers}
    assert await asyncio.gather(*[each.stopped() for each in workers]) == [0, 0]
    assert await world.places() == {"ended": 60}


async def test_two_applications_on_two_databases_do_not_see_each_other(world: World) -> None:
    other = world.other()
    here, there = world.app(counting), other.app(counting)
    mine = await here.start_many("count", range(10))
    theirs = await there.start_many("count", range(100, 110))
    worker = await world.worker(counting)
    assert [await each.result(PATIENCE) for each in mine] == list(range(10))
    assert {(run.state, run.attempt) for run in await other.runs()} == {("PENDING", 0)}

    other_worker = await other.worker(counting)
    assert [await each.result(PATIENCE) for each in theirs] == list(range(100, 110))
    for entry in world.journal.of("counted"):
        assert entry.process == (worker.pid if entry["number"] < 100 else other_worker.pid)
    assert {run.id for run in await world.runs()} == {each.id for each in mine}
    assert {run.id for run in await other.runs()} == {each.id for each in theirs}


def noting(app: Redrive) -> None:
    @app.task
    async def work(number: int, context: Context) -> int:
        note("worked", number=number, org=context.org)
        await asyncio.sleep(0.02)
        return number


async def test_a_flood_of_one_organization_does_not_starve_another(world: World) -> None:
    app = world.app(noting, org_concurrency=2)
    flood = await app.start_many("work", range(80), org="flooding")
    async with world.working(app, concurrency=4):
        await until(lambda: world.journal.count("worked", org="flooding") >= 2)
        patient = [await app.start("work", number, org="patient") for number in range(4)]
        for each in patient:
            await each.result(PATIENCE)
        flooded = world.journal.count("worked", org="flooding")
        assert flooded < 60  # earlier runs do not have to finish first
        for each in flood:
            await each.result(PATIENCE)


async def test_more_urgent_runs_come_first_and_then_older_ones(world: World) -> None:
    app = world.app(noting)
    for number, priority in enumerate([0, 5, -5, 5, 0]):
        await app.start("work", number, priority=priority)
    async with world.working(app, concurrency=1):
        await until(lambda: world.journal.count("worked") == 5)
    assert [each["number"] for each in world.journal.of("worked")] == [1, 3, 0, 4, 2]


async def test_a_retry_is_not_overtaken_forever_by_new_work(world: World) -> None:
    app = world.app(noting)

    @app.task(retry=quick(max_attempts=2, base=0.1))
    async def once_again(number: int, context: Context) -> None:
        note("tried", attempt=context.attempt)
        if context.attempt == 1:
            raise ConnectionError

    old = await app.start(once_again, 0)
    async with world.working(app, concurrency=1):
        await until(lambda: world.journal.count("tried") == 1)
        flood = await app.start_many("work", range(60))
        await old.result(PATIENCE)
        assert world.journal.count("worked") < 50  # it did not have to wait until all of them had finished
        for each in flood:
            await each.result(PATIENCE)


async def test_a_worker_is_limited_to_a_workflow(world: World) -> None:
    app = world.app(mail_and_shop)
    prices = [await app.start("price", number) for number in range(5)]
    orders = [await app.start("order", number) for number in range(5)]
    async with world.working(app, workflows=("price",)):
        assert [await each.result(PATIENCE) for each in prices] == [0, 100, 200, 300, 400]
        assert [(await each.view()).attempt for each in orders] == [0] * 5
    async with world.working(app, workflows=("order",)):
        assert await orders[4].result(PATIENCE) == "sent 400"


async def test_each_queue_has_its_own_worker(world: World) -> None:
    app = world.app(mail_and_shop)
    shop = await world.worker(mail_and_shop, queues=["default"])
    mail = await world.worker(mail_and_shop, queues=["mail"])
    orders = [await app.start("order", number) for number in range(10)]
    assert [await each.result(PATIENCE) for each in orders] == [f"sent {n * 100}" for n in range(10)]
    assert {each.process for each in world.journal.of("priced")} == {shop.pid}
    assert {each.process for each in world.journal.of("sent")} == {mail.pid}


@pytest.mark.parametrize(
    ("task", "payloads", "most"),
    [
        ("scarce", list(range(24)), {"scarce": 2}),
        (
            "transfer",
            [{"account": "ab"[number % 2], "number": number} for number in range(24)],
            {"a": 1, "b": 1},
        ),
    ],
    ids=["of a task", "of a key"],
)
async def test_a_limit_is_never_exceeded_and_everything_is_done(
    world: World, task: str, payloads: list[object], most: dict[str, int]
) -> None:
    app = world.app(limited)
    workers = [await world.worker(limited, concurrency=8) for _ in range(2)]
    runs = await app.start_many(task, payloads)
    for run in runs:
        await run.result(PATIENCE)
    seen = world.journal.of("begin", "end")
    assert len(seen) == 48
    assert {what: most_at_once(seen, what) for what in most} == most
    assert await asyncio.gather(*[each.stopped() for each in workers]) == [0, 0]
    for run in runs:
        assert [each.outcome for each in (await run.history()).attempts] == ["succeeded"]


def most_at_once(seen: list[Entry], what: str) -> int:
    at_once = most = 0
    for each in seen:
        if each["what"] == what:
            at_once += 1 if each.what == "begin" else -1
            most = max(most, at_once)
    return most
