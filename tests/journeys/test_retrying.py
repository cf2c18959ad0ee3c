"""Work that fails: Redrive retries it at the computed times, waits as long as asked, or gives up."""

from __future__ import annotations

import logging
from itertools import pairwise

import httpx
import pytest
from tests.journeys.apps import quick
from tests.journeys.journal import note
from tests.journeys.world import PATIENCE, World, until
from tests.misbehaving import MisbehavingServer, answer, reset

from redrive.engine.history import History
from redrive.errors import RateLimitedError, RunFailedError
from redrive.policy import Backoff, Exponential, Proportional, RetryPolicy
from redrive.words.decision import explain


async def call(gateway: MisbehavingServer) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{gateway.url}/charge")).raise_for_status()


async def test_it_fails_twice_is_retried_at_the_computed_times_and_succeeds(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.engine")
    app = world.app()
    backoff = Backoff(Exponential(0.05), cap=10.0, jitter=Proportional(0.25))

    with MisbehavingServer() as gateway:
        gateway.script(answer(503), reset(), answer(200))

        @app.task(retry=RetryPolicy(max_attempts=4, backoff=backoff))
        async def charge(order: str) -> str:
            await call(gateway)
            return f"{order} is paid"

        async with world.working(app):
            run = await app.start(charge, "order 7")
            assert await run.result(PATIENCE) == "order 7 is paid"

    history = await run.history()
    assert [each.outcome for each in history.attempts] == ["failed", "failed", "succeeded"]
    assert [each.category for each in history.attempts] == ["provider_5xx", "network", None]
    first, second, _ = history.attempts
    assert first.delay == pytest.approx(0.05, rel=0.26)
    assert second.delay == pytest.approx(0.10, rel=0.26)
    assert_spaced_as_stored(history)
    assert (first.decision.failures, first.decision.max_attempts, first.decision.planned) == (1, 4, 0.05)
    assert (second.decision.failures, second.decision.max_attempts, second.decision.planned) == (2, 4, 0.1)
    assert "wait min(10, 0.05 · 2^(2 - 1)) = 0.1 s" in explain(second.decision)

    assert [each.what for each in history.events] == [
        "queued", "started", "retry", "started", "retry", "started", "succeeded", "finished",
    ]  # fmt: skip
    [step] = history.steps
    assert (step.attempt_count, step.max_retries, step.state) == (3, 3, "SUCCESS")
    assert step.first_failed_at == first.ended_at
    assert step.last_failed_at == second.ended_at
    assert (step.next_retry_at, step.error_class, history.run.failures) == (None, None, 0)  # D8

    told = [vars(record)["fields"] for record in caplog.records if record.name == "redrive.engine"]
    retries = [each for each in told if each["event"] == "step.retry_scheduled"]
    assert [each["attempt"] for each in retries] == [1, 2]
    assert [each["delay_ms"] / 1e3 for each in retries] == pytest.approx(
        [first.delay, second.delay], abs=1e-3
    )
    assert all(each["run_id"] == run.id and each["max_attempts"] == 4 for each in retries)
    [success] = [each for each in told if each["event"] == "step.recovered"]
    assert (success["attempt"], success["failures"]) == (3, 2)


ROUNDING = 0.000_001


def assert_spaced_as_stored(history: History) -> None:
    for before, after in pairwise(history.attempts):
        assert before.ended_at is not None
        assert before.delay is not None
        assert after.started_at is not None
        assert after.started_at - before.ended_at >= before.delay - ROUNDING


async def test_it_is_rate_limited_more_often_than_it_has_attempts_and_succeeds(world: World) -> None:
    app = world.app()
    hints = iter([0.2, 0.05, 0.1, 0.05, 0.05])

    with MisbehavingServer() as gateway:
        gateway.script(answer(429, {"Retry-After": "1"}))

        @app.task(retry=quick(max_attempts=2, base=60.0))
        async def charge(order: int) -> str:
            await call(gateway)
            for seconds in hints:
                raise RateLimitedError("slow down", retry_after=seconds)
            return "paid"

        async with world.working(app):
            run = await app.start(charge, 7)
            assert await run.result(PATIENCE) == "paid"

    history = await run.history()
    *limited, last = history.attempts
    assert [each.delay for each in limited] == pytest.approx([1.0, 0.2, 0.05, 0.1, 0.05, 0.05], abs=1e-3)
    assert {each.reason for each in limited} == {"rate_limit_hint"}
    assert {attempt.decision.code for attempt in limited} == {"rate_limit_hint"}
    assert_spaced_as_stored(history)
    assert (last.number, last.outcome) == (7, "succeeded")


async def test_a_rate_limit_does_not_use_up_what_failures_need(world: World) -> None:
    """Three waits, two failures and three attempts: the waits don't count."""
    app = world.app()
    limit = RateLimitedError("slow down", retry_after=0.03)
    errors = iter([limit, ConnectionError("reset"), limit, ConnectionError("reset"), limit])

    @app.task(retry=quick(max_attempts=3))
    async def charge(order: int) -> str:
        for error in errors:
            raise error
        return "paid"

    async with world.working(app):
        run = await app.start(charge, 7)
        assert await run.result(PATIENCE) == "paid"
    assert [each.reason for each in (await run.history()).attempts] == [
        "rate_limit_hint", "backoff", "rate_limit_hint", "backoff", "rate_limit_hint", "succeeded",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "run_state", "step_state"),
    [("bury", "DLQ_PENDING", "DLQ"), ("block", "DLQ_PENDING", "BLOCKED"), ("fail", "FAILED", "FAILED")],
)
async def test_its_budget_is_used_up(
    world: World, caplog: pytest.LogCaptureFixture, ending: str, run_state: str, step_state: str
) -> None:
    app = world.app()

    @app.task(retry=quick(max_attempts=3), when_exhausted=ending)
    async def charge(order: int) -> None:
        note("charged", order=order)
        raise ConnectionError("the gateway hangs up")

    @app.task
    async def look_around(order: int) -> None:
        note("looked around")

    async with world.working(app):
        run = await app.start(charge, 7)
        assert await run.wait(PATIENCE) == run_state
        await (await app.start(look_around, 0, delay=0.3)).result(PATIENCE)

    assert world.journal.count("charged") == 3  # and none since, although a worker was running for a while
    history = await run.history()
    assert [each.reason for each in history.attempts] == ["backoff", "backoff", "attempts_spent"]
    assert [step.state for step in history.steps] == [step_state]
    with pytest.raises(RunFailedError, match="failed after 3 attempts with ConnectionError") as failed:
        await run.result(PATIENCE)
    assert failed.value.state == run_state

    letter = await run.dead_letter()
    assert letter is not None
    assert (letter.state, letter.reason) == ("OPEN", "attempts_spent")
    assert (letter.attempts, letter.failures) == (3, 3)
    assert letter.first_failed_at == history.attempts[0].ended_at
    assert letter.last_failed_at == history.attempts[-1].ended_at
    [died] = [each for each in caplog.records if "step.died" in each.getMessage()]
    assert vars(died)["fields"]["reason"] == "attempts_spent"


async def test_waiting_retries_do_not_block_new_work(world: World) -> None:
    app = world.app()

    @app.task(retry=quick(max_attempts=2, base=60.0))
    async def fail(number: int) -> None:
        note("failed", number=number)
        raise ConnectionError

    @app.task
    async def succeed(number: int) -> int:
        return number

    async with world.working(app, concurrency=2):
        waiting = await app.start_many(fail, range(20))
        await until(lambda: world.journal.count("failed") == 20)
        assert await (await app.start(succeed, 1)).result(PATIENCE) == 1
    runs = [await each.view() for each in waiting]
    assert {(each.step_state, each.place, each.failures) for each in runs} == {("RETRYING", "waiting", 1)}
