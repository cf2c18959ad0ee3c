"""Starting runs: stored first, once for every key, and executed in order (G8, D6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import SystemRandom

import pytest
from tests.engine.workbench import app_at, bench, check_ended, new_app, seamed, sql, working

from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.enqueue import PIECE_SIZE
from redrive.errors import ConflictError, InvalidValueError, NotFoundError, PayloadError
from redrive.parts import rewire
from redrive.store.postgres import PostgresDatabase
from redrive.testing import EPOCH


async def test_a_new_run_is_stored_with_the_given_values() -> None:
    app = new_app(queues=["express"])

    @app.task
    async def work(number: int) -> None: ...

    async with bench(app):
        run = await app.start(
            work,
            5,
            org="acme",
            key="order-5",
            priority=-7,
            delay=30,
            queue="express",
            correlation_id="trace",
            tags=["a", "b"],
            metadata={"team": "x"},
        )
        row = await run.view()
    assert (row.id, run.org, row.workflow, row.queue, row.priority) == (run.id, "acme", "work", "express", -7)
    assert (row.state, row.step_state, row.place, row.due_at) == ("PENDING", "PENDING", "waiting", EPOCH + 30)
    assert (row.input, row.idempotency_key, row.correlation_id) == (5, "order-5", "trace")
    assert (row.tags, row.metadata) == (("a", "b"), {"team": "x"})
    assert (row.attempt, row.failures, row.submitted_at, row.started_at) == (0, 0, EPOCH, None)


async def test_the_same_key_is_the_same_run_forever_and_per_org() -> None:
    app = new_app()
    calls: list[str] = []

    @app.task
    async def work(number: int, context: Context) -> int:
        calls.append(context.org)
        return number

    @app.task
    async def other(number: int) -> None: ...

    async with bench(app) as test:
        first = await app.start(work, 1, key="k")
        assert (await app.start(work, 1, key="k", priority=9)).id == first.id
        await test.drain()
        assert (await app.start(work, 1, key="k")).id == first.id
        assert (await app.start(work, 1, key="k", org="acme")).id != first.id
        for work_or_other, number in ((work, 2), (other, 1)):
            with pytest.raises(ConflictError, match=f"belongs to run {first.id}") as caught:
                await app.start(work_or_other, number, key="k")
            assert caught.value.run_id == first.id
        await test.drain()
        await check_ended(app, 2)
    assert calls == ["default", "acme"]


async def test_many_callers_with_one_key_cause_one_execution(tmp_path: Path) -> None:
    app, other = app_at(tmp_path / "work.db"), app_at(tmp_path / "work.db")
    calls: list[int] = []

    async def work(number: int) -> int:
        calls.append(number)
        return number

    for each in (app, other):
        each.task(work)
    async with working(app):
        await other.open()
        starts = [each.start("work", 1, key="k") for each in (app, other) for _ in range(20)]
        runs = await asyncio.gather(*starts)
        assert len({run.id for run in runs}) == 1
        assert await runs[0].result(8) == 1
        await check_ended(app, 1)
    await other.close()
    assert calls == [1]


async def test_by_priority_then_by_submission() -> None:
    app = new_app()
    order: list[str] = []

    @app.task
    async def work(name: str) -> None:
        order.append(name)

    async with bench(app) as test:
        for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -100), ("e", 100), ("f", 5)):
            await app.start(work, name, priority=priority)
            test.clock.advance(0.001)
        await test.drain()
    assert order == ["e", "b", "f", "a", "c", "d"]


async def test_many_are_stored_in_their_order_in_one_write_or_not_at_all() -> None:
    app = new_app()
    order: list[int] = []

    @app.task
    async def work(number: int) -> None:
        order.append(number)

    async with bench(app) as test:
        await sql(app, "SELECT 1")
        runs = await app.start_many(work, (number for number in range(250)), priority=3, tags=["bulk"])
        assert len({run.id for run in runs}) == 250
        assert sorted(run.id for run in runs) == [run.id for run in runs]
        assert {run.priority for run in await test.started()} == {3}
        await test.drain()
        assert order == list(range(250))
        with pytest.raises(ValueError, match="work"):
            await app.start_many("work", [1, 2, "three", 4])
        assert len(await test.started()) == 250


async def test_a_paused_queue_is_left_alone_and_others_are_not() -> None:
    app = new_app(queues=["slow"])
    order: list[str] = []

    @app.task
    async def work(name: str) -> None:
        order.append(name)

    async with bench(app) as test:
        await app.queues(by="ann").pause("slow", reason="deploy")
        await app.start(work, "slow", queue="slow")
        await app.start(work, "other")
        await test.drain()
        row = await app.queues().view("slow")
        assert (row.name, row.paused_at, row.paused_by, row.reason) == ("slow", EPOCH, "ann", "deploy")
        assert order == ["other"]
        await app.queues().resume("slow")
        await test.drain()
    assert order == ["other", "slow"]


async def test_a_full_queue_does_not_starve_another(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    order: list[str] = []

    @app.task(queue="bulk")
    async def bulk() -> None:
        order.append("bulk")
        await asyncio.sleep(0.001)

    @app.task(queue="urgent")
    async def urgent() -> None:
        order.append("urgent")

    async with app:
        await app.start_many(bulk, [None] * 300)
        last = await app.start(urgent)
    async with working(app, concurrency=5):
        assert await last.wait(8) == "SUCCESS"
    assert order.index("urgent") < 50


async def test_many_can_have_a_key_each() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with bench(app):
        first = await app.start_many(work, [1, 2], keys=["a", "b"])
        again = await app.start_many(work, [2, 3], keys=["b", "c"])
        assert again[0].id == first[1].id
        assert [await run.result() for run in (*first, *again)] == [1, 2, 2, 3]
        with pytest.raises(ConflictError):
            await app.start_many(work, [9, 3], keys=["d", "a"])
        with pytest.raises(InvalidValueError, match="2 payloads but 1 keys"):
            await app.start_many(work, [1, 2], keys=["x"])


async def test_a_handle_finds_its_tables_by_itself(tmp_path: Path) -> None:
    app = app_at(tmp_path / "fresh.db")
    with pytest.raises(NotFoundError):
        await app.run("nobody").state()
    await app.close()


async def test_more_than_a_piece_is_started_as_a_whole_or_not_at_all() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> int:
        return number

    async with seamed(app) as (test, seam):
        seam.fail("enqueue_new", after=True)  # the answer to the commit is lost, and the engine retries
        runs = await app.start_many(work, range(3 * PIECE_SIZE + 1))
        assert len({run.id for run in runs}) == len(await test.started()) == 3 * PIECE_SIZE + 1
        assert seam.triggered == ["enqueue_new"]
        with pytest.raises(PayloadError):
            await app.start_many(work, [*range(2 * PIECE_SIZE), "no number"])
        assert len(await test.started()) == 3 * PIECE_SIZE + 1
        await test.drain()
        assert [await run.result() for run in runs] == list(range(3 * PIECE_SIZE + 1))


async def test_starts_that_come_during_a_write_share_the_next_one() -> None:
    app = new_app()

    @app.task
    async def work(value: int) -> int:
        return value

    async with bench(app) as test:
        runs = await asyncio.gather(*(app.start(work, number) for number in range(20)))
        await test.drain()
        assert [await run.result() for run in runs] == list(range(20))


async def test_a_start_that_is_cancelled_keeps_no_other_from_being_stored(
    postgres_database: PostgresDatabase,
) -> None:
    app = new_app()
    rewire(app, postgres_database, SYSTEM_CLOCK, SystemRandom())

    @app.task
    async def work(value: int) -> int:
        return value

    async with app:
        first, second, third = (asyncio.create_task(app.start(work, number)) for number in range(3))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        stored = {(await third).id, (await app.start(work, 3)).id}
        assert (first.cancelled(), second.cancelled()) == (True, True)
        assert stored <= {run.id for run in (await app.runs().list()).runs}
