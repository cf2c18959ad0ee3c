"""The history of a run, assembled from its records (P9, W6)."""

from __future__ import annotations

import pytest
from tests.engine.workbench import bench, lose_lease, new_app

from redrive import Backoff, RetryPolicy
from redrive.engine.context import Context
from redrive.engine.history import TimelineEvent
from redrive.errors import RateLimitedError
from redrive.model.fact import fact
from redrive.model.step import FinishedStep
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.testing import EPOCH

TWICE = RetryPolicy(max_attempts=3, backoff=Backoff(Exponential(1.0)))


async def test_everything_in_the_order_in_which_it_happened() -> None:
    app = new_app()

    @app.task(retry=TWICE)
    async def first(context: Context) -> str:
        test.clock.advance(0.5)
        if context.attempt == 1:
            raise ConnectionError("no route")
        if context.attempt == 2:
            raise RateLimitedError("slow", retry_after=7.0)
        return "one"

    @app.task(retry=TWICE)
    async def second(before: str) -> str:
        test.clock.advance(0.25)
        raise ValueError("broken")

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        run = await app.start("flow", correlation_id="trace")
        await test.advance(60)
        history = await run.history()
    told = [(round(each.at - EPOCH, 3), each.what, each.step, each.attempt) for each in history.events]
    assert told == [
        (0.0, "queued", None, None),
        (0.0, "started", "first", 1),
        (0.5, "retry", "first", 1),
        (1.5, "started", "first", 2),
        (2.0, "retry", "first", 2),
        (9.0, "started", "first", 3),
        (9.5, "succeeded", "first", 3),
        (9.5, "started", "second", 1),
        (9.75, "failed", "second", 1),
        (9.75, "finished", None, None),
    ]
    one, two = history.steps
    assert (one.state, one.attempt_count, one.max_retries, one.output) == ("SUCCESS", 3, 2, "one")
    assert (one.first_failed_at, one.last_failed_at) == (EPOCH + 0.5, EPOCH + 2.0)
    assert (one.started_at, one.ended_at, one.correlation_id) == (EPOCH, EPOCH + 9.5, "trace")
    assert (two.state, two.attempt_count, two.output, two.next_retry_at) == ("DLQ", 1, None, None)
    assert two.error_stack is not None
    assert "ValueError: broken" in two.error_stack
    assert (two.started_at, two.ended_at) == (EPOCH + 9.5, EPOCH + 9.75)
    waits = [
        (each.step_index, each.number, each.outcome, each.delay, each.reason) for each in history.attempts
    ]
    assert waits == [
        (0, 1, "failed", 1.0, "backoff"),
        (0, 2, "failed", 7.0, "rate_limit_hint"),
        (0, 3, "succeeded", None, "succeeded"),
        (1, 1, "failed", None, "final_error"),
    ]
    assert {each.worker for each in history.attempts} == {history.run.worker}


async def test_lost_deferred_and_held_attempts_are_part_of_it() -> None:
    app = new_app()

    @app.task(breaker="bank")
    async def pay(context: Context) -> int:
        if context.attempt == 1:
            context.defer(5.0)
        if context.attempt == 2:
            await lose_lease(app, context.run_id)
        return context.attempt

    async with bench(app) as test:
        await app.breakers().force("bank", "OPEN", reason="maintenance")
        run = await app.start(pay)
        await test.drain()
        held = await run.history()
        await app.breakers().force("bank", "CLOSED", reason="over")
        await test.advance(60)
        assert await run.result() == 3
        history = await run.history()
    assert [each.what for each in held.events][:2] == ["queued", "held"]
    assert held.steps[0].attempt_count == 0
    what = [each.what for each in history.events]
    assert what == [
        "queued",
        "held",
        "released",
        "started",
        "released",
        "started",
        "lost",
        "started",
        "succeeded",
        "finished",
    ]
    assert [each.outcome for each in history.attempts] == ["released", "lost", "succeeded"]
    assert history.events[1].detail == fact("held", holder="breaker:bank")


async def test_of_a_queued_run_and_of_an_executing_run() -> None:
    app = new_app()
    seen: list[str] = []

    @app.task
    async def work(context: Context) -> None:
        history = await app.run(context.run_id).history()
        seen.extend(each.what for each in history.events)
        assert [step.state for step in history.steps] == ["RUNNING"]

    async with bench(app) as test:
        run = await app.start(work)
        history = await run.history()
        assert [(each.what, each.detail) for each in history.events] == [("queued", None)]
        assert (history.steps[0].state, history.attempts) == ("PENDING", [])
        await test.drain()
    assert seen == ["queued", "started"]


async def test_an_attempt_in_progress_appears_as_it_does_afterwards() -> None:
    app = new_app()
    seen: list[TimelineEvent] = []

    @app.task
    async def first() -> None:
        test.clock.advance(0.5)

    @app.task
    async def second(context: Context) -> None:
        seen.extend((await app.run(context.run_id).history()).events)
        test.clock.advance(0.5)

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        run = await app.start("flow")
        await test.drain()
        assert seen == (await run.history()).events[:4]
    assert [(each.what, each.step) for each in seen[2:]] == [("succeeded", "first"), ("started", "second")]


async def test_a_replay_from_an_earlier_step_moves_nothing_that_was_before_it() -> None:
    app = new_app()

    @app.task
    async def first() -> None:
        test.clock.advance(1.0)

    @app.task(max_attempts=1)
    async def second(context: Context) -> None:
        test.clock.advance(1.0)
        if context.attempt == 1:
            raise ValueError("broken")

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        run = await app.start("flow")
        await test.drain()
        before = (await run.history()).events
        test.clock.advance(100.0)
        letter = await run.dead_letter()
        assert letter is not None
        await app.failures().replay(letter.id, from_step=0)
        await test.drain()
        after = (await run.history()).events
    began = [(round(each.at - EPOCH, 3), each.step, each.attempt) for each in after if each.what == "started"]
    assert began == [(0.0, "first", 1), (1.0, "second", 1), (102.0, "first", 2), (103.0, "second", 2)]
    assert [each for each in before if each.what == "started"] == [
        each for each in after if each.at < EPOCH + 2
    ][1::2]


async def test_a_run_that_continues_while_its_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is of one moment: no end without the previous step, no step after the end."""
    app = new_app()

    @app.task
    async def first() -> None: ...

    @app.task
    async def second() -> None: ...

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        run = await app.start("flow")
        read = parts_of(app).store.runs.steps

        async def read_late(*which: str) -> list[FinishedStep]:
            await test.drain()
            return await read(*which)

        monkeypatch.setattr(parts_of(app).store.runs, "steps", read_late)
        history = await run.history()
    assert history.run.state == "SUCCESS"
    assert [(each.what, each.step) for each in history.events] == [
        ("queued", None),
        ("started", "first"),
        ("succeeded", "first"),
        ("started", "second"),
        ("succeeded", "second"),
        ("finished", None),
    ]
