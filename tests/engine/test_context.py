"""The context of an attempt: what a task can read from it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import app_at, bench, new_app, sql, working

from redrive import Backoff, RetryPolicy
from redrive.engine.context import Context
from redrive.errors import AttemptTimeoutError, InvalidValueError, RunCancelledError
from redrive.policy import Exponential
from redrive.policy.codec import encode
from redrive.policy.policy_json import policy_to_json
from redrive.testing import EPOCH

THRICE = RetryPolicy(max_attempts=3, backoff=Backoff(Exponential(1.0)))


async def test_every_field() -> None:
    app = new_app(queues=["express"])
    seen: dict[str, Any] = {}

    @app.task(retry=THRICE, timeout=40.0)
    async def first(number: int) -> int:
        return number + 1

    @app.task(retry=THRICE, timeout=40.0)
    async def second(number: int, context: Context) -> None:
        if context.attempt == 1:
            raise ConnectionError
        test.clock.advance(15.0)
        names = (
            "run_id org workflow step step_index attempt failures max_attempts idempotency_key fence "
            "correlation_id config run_input tags metadata deadline cancelled results"
        )
        seen.update({name: getattr(context, name) for name in names.split()})
        seen["remaining"], seen["elapsed"] = context.remaining(), context.elapsed()

    app.workflow("flow", [first, second.step("the second", config=[1, 2])])
    async with bench(app) as test:
        run = await app.start(
            "flow", 4, org="acme", key="order-7", correlation_id="trace-1", tags=["a", "b"], metadata={"x": 1}
        )
        await test.advance(60)
    assert seen == {
        "run_id": run.id,
        "org": "acme",
        "workflow": "flow",
        "step": "the second",
        "step_index": 1,
        "attempt": 2,
        "failures": 1,
        "max_attempts": 3,
        "idempotency_key": "acme:order-7:1",
        "fence": 3,
        "correlation_id": "trace-1",
        "config": [1, 2],
        "run_input": 4,
        "tags": ["a", "b"],
        "metadata": {"x": 1},
        "deadline": EPOCH + 1.0 + 40.0,
        "cancelled": False,
        "results": {"first": 5},
        "remaining": 25.0,
        "elapsed": 15.0,
    }


async def test_missing_values_have_sensible_defaults() -> None:
    app = new_app()

    @app.task
    async def plain(context: Context) -> list[Any]:
        return [context.org, context.tags, context.metadata, context.config, context.correlation_id]

    async with bench(app) as test:
        run = await app.start(plain)
        await test.drain()
        assert await run.result() == ["default", [], {}, None, run.id]


async def test_the_idempotency_key_is_the_same_on_every_attempt_and_different_for_every_step_and_run() -> (
    None
):
    app = new_app()
    keys: list[tuple[str, int, str]] = []

    @app.task(retry=THRICE)
    async def call(context: Context) -> None:
        keys.append((context.run_id, context.step_index, context.idempotency_key))
        if context.attempt < 3:
            raise ConnectionError

    app.workflow("flow", [call.step("a"), call.step("b")])
    async with bench(app) as test:
        await test.execute("flow")
        await test.execute("flow")
        await test.execute("flow", key="mine")
    by_step: dict[tuple[str, int], set[str]] = {}
    for run_id, index, key in keys:
        by_step.setdefault((run_id, index), set()).add(key)
    assert len(keys) == 18
    assert all(len(each) == 1 for each in by_step.values())
    assert len(set.union(*by_step.values())) == 6
    assert {"default:mine:0", "default:mine:1"} <= set.union(*by_step.values())


async def test_the_fence_rises_with_every_attempt_and_step() -> None:
    app = new_app()
    fences: list[int] = []

    @app.task(retry=THRICE)
    async def call(context: Context) -> None:
        fences.append(context.fence)
        if context.attempt < 3:
            raise ConnectionError

    app.workflow("flow", [call.step("a"), call.step("b")])
    async with bench(app) as test:
        await test.execute("flow")
    assert fences == [1, 2, 3, 4, 5, 6]


async def test_log_records_carry_the_run(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()

    @app.task
    def talk(context: Context) -> None:
        context.logger.info("packing %s", "it")

    with caplog.at_level(logging.INFO):
        async with bench(app) as test:
            run = await app.start(talk, org="acme", correlation_id="trace")
            await test.drain()
    [record] = [each for each in caplog.records if each.name == "redrive.task.talk"]
    assert record.getMessage() == "packing it"
    assert vars(record)["fields"] == {
        "org_id": "acme",
        "run_id": run.id,
        "workflow": "talk",
        "step": "talk",
        "attempt": 1,
        "correlation_id": "trace",
    }


async def test_progress_is_stored_while_the_task_is_executed(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    go_on = asyncio.Event()

    @app.task
    async def long(context: Context) -> str:
        context.progress(0.25, "a quarter")
        context.progress(0.5, "half\x00 of it \ud800" + "x" * 5_000)
        await go_on.wait()
        return "done"

    async with working(app):
        run = await app.start(long)
        while (progress := (await run.view()).progress) is None:
            await asyncio.sleep(0.01)
        assert progress["fraction"] == 0.5
        assert progress["note"].startswith("half")
        assert len(progress["note"]) < 1_000
        go_on.set()
        assert await run.result(5) == "done"
        assert (await run.view()).progress is None


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), "half", True])
async def test_progress_is_a_fraction(fraction: Any) -> None:
    app = new_app()

    @app.task
    async def long(context: Context) -> None:
        with pytest.raises(InvalidValueError, match="from 0 to 1"):
            context.progress(fraction)

    async with bench(app) as test:
        await test.execute(long)


async def test_check_raises_when_the_time_is_over() -> None:
    app = new_app()

    @app.task(timeout=10.0, max_attempts=1)
    def slow(context: Context) -> None:
        context.check()
        test.clock.advance(9.999)
        context.check()
        test.clock.advance(0.001)
        assert context.remaining() == 0.0
        with pytest.raises(AttemptTimeoutError, match="attempt 1 of step 'slow' took longer than 10 s"):
            context.check()
        context.cancel()
        assert context.cancelled
        context.check()

    async with bench(app) as test:
        run = await app.start(slow)
        await test.drain()
        letter = await run.dead_letter()
    assert letter is not None
    assert letter.error_type.endswith(RunCancelledError.__name__)


async def test_a_task_defers_itself_by_seconds_or_to_a_time() -> None:
    app = new_app()
    moments: list[float] = []

    @app.task(max_attempts=1)
    async def later(context: Context) -> int:
        moments.append(test.clock.time)
        if context.attempt == 1:
            context.defer(90)
        if context.attempt == 2:
            context.defer(datetime.fromtimestamp(EPOCH + 1_000, UTC))
        if context.attempt == 3:
            context.defer(datetime.fromtimestamp(EPOCH + 1_000, UTC))  # no longer in the future
        return context.attempt

    async with bench(app) as test:
        assert await test.execute(later) == 4
    assert moments[:3] == [0.0, 90.0, 1_000.0]
    assert moments[3] <= 1_001.0


async def test_a_task_defers_itself_by_a_timedelta() -> None:
    app = new_app()

    @app.task(max_attempts=1)
    async def later(context: Context) -> float:
        if context.attempt == 1:
            context.defer(timedelta(minutes=1, seconds=30))
        return test.clock.time

    async with bench(app) as test:
        assert await test.execute(later) == 90.0


@pytest.mark.parametrize(
    "until",
    [
        -1,
        float("nan"),
        float("inf"),
        "soon",
        True,
        None,
        datetime(2030, 1, 1),  # noqa: DTZ001
        10**12,
        timedelta(seconds=-1),
        timedelta(days=366),
    ],
)
async def test_an_odd_deferral_is_refused(until: Any) -> None:
    app = new_app()

    @app.task
    async def later(context: Context) -> None:
        with pytest.raises(InvalidValueError):
            context.defer(until)

    async with bench(app) as test:
        await test.execute(later)


async def test_completing_within_a_transaction_is_refused_on_sqlite() -> None:
    app = new_app()

    @app.task
    async def pay(context: Context) -> str:
        with pytest.raises(InvalidValueError, match="PostgreSQL"):
            await context.complete(1, connection=object())
        return "the ordinary way"

    async with bench(app) as test:
        assert await test.execute(pay) == "the ordinary way"


async def test_the_task_sees_an_override_of_the_policy() -> None:
    app = new_app()
    seen: list[int] = []

    @app.task(retry=THRICE)
    async def call(context: Context) -> None:
        seen.append(context.max_attempts)
        raise ConnectionError

    async with bench(app) as test:
        run = await app.start(call)
        override = RetryPolicy(max_attempts=5, backoff=Backoff(Exponential(1.0)))
        await sql(app, "UPDATE runs SET policy_override = ?1", encode(policy_to_json(override)))
        await test.advance(60)
        letter = await run.dead_letter()
    assert letter is not None
    assert letter.attempts == 5
    assert seen == [5] * 5


async def test_the_keys_of_two_orgs_never_meet_outside() -> None:
    app, keys = new_app(), list[str]()

    @app.task
    async def pay(amount: int, context: Context) -> None:
        keys.append(context.idempotency_key)

    async with bench(app) as test:
        for org in ("a", "b", "a:b"):
            await app.start(pay, 1, key="order-7", org=org)
        await app.start(pay, 1, key="b:order-7", org="a")
        await test.drain()
    assert keys == ["a:order-7:0", "b:order-7:0", "a%3Ab:order-7:0", "a:b:order-7:0"]
