"""redrive.testing.in_memory: an application whose time passes when the test lets it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from redrive import Backoff, BreakerPolicy, RetryPolicy
from redrive.app import Redrive
from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.engine.context import Context
from redrive.errors import InvalidValueError, RunFailedError
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.testing import EPOCH, Harness, in_memory

HOURLY = RetryPolicy(max_attempts=3, backoff=Backoff(Exponential(3600.0, 2.0)))
PATIENCE = 60.0


def new_app() -> Redrive:
    return Redrive("sqlite://:memory:", log=False)


async def test_drain_executes_ready_work_and_work_that_becomes_ready_by_that() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task
    async def countdown(number: int) -> None:
        calls.append(number)
        if number:
            await app.start(countdown, number - 1)

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        await app.start(countdown, 3)
        assert not calls
        assert await test.drain() == 4
        assert calls == [3, 2, 1, 0]
        assert await test.drain() == 0


async def test_drain_counts_attempts() -> None:
    app = new_app()

    @app.task
    async def step() -> None: ...

    @app.task(breaker="bank")
    async def held() -> None: ...

    app.workflow("flow", [step.step("a"), step.step("b"), step.step("c")])
    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        await app.start("flow")
        assert await test.drain() == 3
        await app.breakers().force("bank", "OPEN", reason="down")
        await app.start(held)
        assert await test.drain() == 0


async def test_advance_executes_everything_at_its_time() -> None:
    app = new_app()
    moments: list[tuple[str, float]] = []

    @app.task(retry=HOURLY)
    async def work(name: str, context: Context) -> None:
        moments.append((name, test.clock.now() - EPOCH))
        if name == "fails" and context.attempt < 3:
            raise ConnectionError

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        await app.start(work, "fails")
        await app.start(work, "at noon", delay=1800.0)
        assert await test.advance(3600.0) == 3
        assert test.clock.time == 3600.0
        assert await test.advance(7199.0) == 0
        assert await test.advance(timedelta(seconds=1)) == 1
        assert await test.advance(1e6) == 0
        assert test.clock.time == 3600.0 + 7200.0 + 1e6
    assert moments == [("fails", 0.0), ("at noon", 1800.0), ("fails", 3600.0), ("fails", 10_800.0)]


async def test_advance_brings_breakers_forward_at_their_time() -> None:
    app = new_app()
    app.breaker("bank", BreakerPolicy(window_calls=1, minimum_calls=1, cool_down=45.0, successes_to_close=1))
    moments: list[float] = []

    @app.task(breaker="bank", retry=RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0))))
    async def pay(context: Context) -> str:
        moments.append(test.clock.time)
        if context.attempt == 1:
            raise ConnectionError
        return "paid"

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        run = await app.start(pay)
        await test.advance(3600.0)
        assert await run.state() == "SUCCESS"
    assert moments[0] == 0.0
    assert 45.0 <= moments[1] <= 46.0


async def test_waiting_for_a_result_lets_the_time_pass_that_it_needs() -> None:
    app = new_app()

    @app.task(retry=HOURLY)
    async def flaky(context: Context) -> int:
        if context.attempt < 3:
            raise ConnectionError
        return context.attempt

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        assert await test.execute(flaky) == 3
        assert test.clock.time == 10_800.0
        run = await app.start(flaky, delay=86_400.0)
        assert await run.wait() == "SUCCESS"
        assert test.clock.time == 10_800.0 + 86_400.0 + 10_800.0


async def test_several_results_can_be_waited_for_at_once() -> None:
    app = new_app()

    @app.task(retry=HOURLY)
    async def flaky(number: int, context: Context) -> int:
        if context.attempt == 1:
            raise ConnectionError
        return number

    async with in_memory(app), asyncio.timeout(PATIENCE):
        runs = await app.start_many(flaky, range(5))
        assert await asyncio.gather(*[run.result() for run in runs]) == list(range(5))


async def test_waiting_for_work_that_no_worker_will_execute_raises_an_error() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with in_memory(app), asyncio.timeout(PATIENCE):
        await app.queues().pause("default")
        run = await app.start(work)
        with pytest.raises(TimeoutError, match="no work is left to execute"):
            await run.result()


async def test_execute_raises_as_in_production() -> None:
    app = new_app()

    @app.task
    async def bad() -> None:
        raise ValueError("broken")

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        with pytest.raises(
            RunFailedError, match=r"step 'bad' failed after 1 attempt with ValueError: broken"
        ):
            await test.execute(bad)


async def test_a_task_may_wait_for_another_run() -> None:
    app = new_app()

    @app.task
    async def inner(number: int) -> int:
        return number + 1

    @app.task
    async def outer(number: int) -> int:
        run = await app.start(inner, number)
        return int(await run.result()) * 10

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        assert await test.execute(outer, 1) == 20


# Assertions


async def test_started_runs_can_be_asserted() -> None:
    app = Redrive("sqlite://:memory:", log=False, queues=["express"])

    @app.task
    async def pay(order: dict[str, Any]) -> None: ...

    @app.task
    async def mail() -> None: ...

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        await test.assert_nothing_started()
        with pytest.raises(AssertionError, match=r"^'pay' was not started; nothing was started$"):
            await test.assert_started(pay)
        first = await app.start(pay, {"id": 1}, queue="express", priority=5, org="acme", key="k")
        await app.start(pay, {"id": 2})
        assert (await test.assert_started(pay, {"id": 1})).id == first.id
        await test.assert_started(
            "pay", {"id": 1}, queue="express", priority=5, org="acme", idempotency_key="k"
        )
        await test.assert_started(pay, times=2)
        await test.assert_started(mail, times=0)
        with pytest.raises(AssertionError) as caught:
            await test.assert_started(pay, {"id": 3})
        assert str(caught.value) == (
            "'pay' with {'id': 3} was not started; started: pay({\"id\":1}), pay({\"id\":2})"
        )
        with pytest.raises(AssertionError, match="'pay' was started 2 times, not 1"):
            await test.assert_started(pay, times=1)
        with pytest.raises(AssertionError, match="'priority': 9"):
            await test.assert_started(pay, priority=9)
        with pytest.raises(AssertionError, match=r"expected no runs to be started; .*pay\("):
            await test.assert_nothing_started()
        assert [run.id for run in await test.started(pay)].index(first.id) == 0
        assert len(await test.started()) == 2


# Inline


async def test_inline_everything_is_executed_as_soon_as_it_is_started() -> None:
    app = new_app()

    @app.task
    async def double(number: int) -> int:
        return number * 2

    async with in_memory(app, inline=True), asyncio.timeout(PATIENCE):
        run = await app.start(double, 4)
        assert (await run.view()).state == "SUCCESS"
        runs = await app.start_many(double, [1, 2])
        assert [(await each.view()).result for each in runs] == [2, 4]
        later = await app.start(double, 4, delay=5.0)
        assert (await later.view()).state == "PENDING"


async def test_inline_a_task_may_start_others() -> None:
    app = new_app()
    calls: list[int] = []

    @app.task
    async def countdown(number: int) -> None:
        calls.append(number)
        if number:
            await app.start(countdown, number - 1)

    async with in_memory(app, inline=True) as test, asyncio.timeout(PATIENCE):
        await app.start(countdown, 3)
        await test.drain()
    assert calls == [3, 2, 1, 0]


# Restoring the application


async def test_afterwards_the_application_is_unchanged() -> None:
    app = new_app()
    before = parts_of(app)

    @app.task
    async def work() -> None: ...

    async with in_memory(app, inline=True), asyncio.timeout(PATIENCE):
        await app.start(work)
        assert parts_of(app).database is not before.database
    assert parts_of(app) is before


async def test_it_is_put_back_also_when_the_test_fails() -> None:
    app = new_app()
    database = parts_of(app).database
    with pytest.raises(RuntimeError, match="the test failed"):
        async with in_memory(app):
            raise RuntimeError("the test failed")
    assert parts_of(app).database is database


async def test_each_block_starts_empty() -> None:
    app = new_app()
    app.breaker("bank", BreakerPolicy(window_calls=1, minimum_calls=1))

    @app.task(breaker="bank", max_attempts=1)
    async def pay() -> None:
        raise ConnectionError

    for _ in range(3):
        async with in_memory(app) as test, asyncio.timeout(PATIENCE):
            await test.assert_nothing_started()
            assert await parts_of(app).breakers.all() == []
            await app.start(pay, key="the same")
            assert await test.drain() == 1
            [state] = await parts_of(app).breakers.all()
            assert state.state == "OPEN"


async def test_the_application_continues_with_its_own_database_afterwards() -> None:
    app = new_app()

    @app.task
    async def work() -> int:
        return 1

    async with app, asyncio.timeout(PATIENCE):
        real = await app.start(work)
        async with in_memory(app) as test:
            await test.execute(work)
            assert len(await test.started()) == 1
        assert await real.state() == "PENDING"
        assert app.run(real.id).id == real.id


# The same seed gives the same history


async def story(seed: int) -> list[Any]:
    app = new_app()
    told: list[Any] = []

    @app.task
    async def down() -> None:
        told.append(test.clock.time)
        raise ConnectionError

    async with in_memory(app, seed=seed) as test, asyncio.timeout(PATIENCE):
        runs = await app.start_many(down, [None] * 3)
        await test.advance(120.0)
        for run in runs:
            letter = await run.dead_letter()
            assert letter is not None
            told += [run.id, letter.id]
            told += [each.delay for each in (await run.history()).attempts]
    return told


async def test_the_same_seed_gives_the_same_ids_and_waits() -> None:
    assert await story(7) == await story(7)
    assert await story(7) != await story(8)


async def test_a_worker_is_refused_because_its_waits_would_never_let_the_loop_continue() -> None:
    app = new_app()
    queue = DeadLetterQueue("sqlite://:memory:", lambda task: task, log=False)
    async with in_memory(app), in_memory(queue.app):
        with pytest.raises(InvalidValueError, match=r"test\.advance"):
            app.worker()
        with pytest.raises(InvalidValueError, match=r"test\.advance"):
            queue.start()
    app.worker()  # allowed again


async def test_sync_tasks_are_called_on_the_thread_of_the_test() -> None:
    import threading

    app = new_app()

    @app.task
    def where() -> int:
        return threading.get_ident()

    async with in_memory(app) as test, asyncio.timeout(PATIENCE):
        assert await test.execute(where) == threading.get_ident()


async def test_a_harness_can_be_used_without_the_block() -> None:
    app = new_app()
    database = parts_of(app).database

    @app.task
    async def work() -> int:
        return 1

    harness = Harness(app)
    assert await harness.execute(work) == 1
    await harness.close()
    assert parts_of(app).database is database
