"""Retries as stored and executed: the counts of REQUIREMENTS in exact numbers (W1–W6, D2–D9, P2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, check_ended, new_app, seamed, settle

from redrive import Backoff, Category, Redrive, RetryPolicy, Rule
from redrive.engine.context import Context
from redrive.engine.run_view import RunView
from redrive.errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    DeferredError,
    FinalError,
    HttpStatusError,
    RateLimitedError,
    RetryableError,
    RunFailedError,
)
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import RetryScheduled
from redrive.policy import Classifier, ErrorClass, Exponential
from redrive.policy.presets import GATEWAY, RUN, STEP
from redrive.settings import Settings
from redrive.testing import EPOCH

SECOND = RetryPolicy(max_attempts=3, backoff=Backoff(Exponential(1.0, 2.0)))


async def outcome(errors: list[Any], policy: RetryPolicy, **options: Any) -> tuple[RunView, list[float], Any]:
    """Run a task that raises these errors in turn and then succeeds.

    Return the run, the times of its attempts, and its letter.
    """
    app = new_app()
    moments: list[float] = []

    @app.task(retry=policy, **options)
    async def flaky(context: Context) -> str:
        moments.append(test.clock.time)
        if len(moments) <= len(errors):
            raise errors[len(moments) - 1]
        return "done"

    async with seamed(app, watch=True) as (test, _):
        run = await app.start(flaky)
        await settle(test, app, step=3600.0)
        await check_ended(app, 1)
        return await run.view(), moments, await run.dead_letter()


def gaps(moments: list[float]) -> list[float]:
    return [late - early for early, late in pairwise(moments)]


DOWN = [ConnectionError("down")] * 50


async def test_a_step_waits_about_2_4_and_8_seconds_and_runs_4_times() -> None:
    run, moments, letter = await outcome(DOWN, STEP)
    first, second, third = gaps(moments)
    assert 1.5 <= first <= 2.5
    assert 3.0 <= second <= 5.0
    assert 6.0 <= third <= 10.0
    assert (run.state, run.step_state, run.attempt, run.failures) == ("DLQ_PENDING", "DLQ", 4, 4)
    assert (letter.attempts, letter.failures, letter.reason) == (4, 4, "attempts_spent")


async def test_the_jitter_of_a_step_reaches_all_of_its_interval_and_nothing_else() -> None:
    app = new_app()

    @app.task
    async def down() -> None:
        raise ConnectionError

    emitted = EventCollector(app)
    async with bench(app) as test:
        await app.start_many(down, [None] * 60)
        await settle(test, app)
    for number, planned in enumerate((2.0, 4.0, 8.0), start=1):
        delays = [each.delay for each in emitted.of(RetryScheduled) if each.explanation.failures == number]
        assert len(delays) == 60
        assert planned * 0.75 <= min(delays) < planned * 0.80
        assert planned * 1.20 < max(delays) <= planned * 1.25


async def test_a_run_waits_60_to_3600_seconds_and_runs_8_times() -> None:
    run, moments, letter = await outcome(DOWN, RUN)
    assert gaps(moments) == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0]
    assert len(moments) == run.attempt == letter.attempts == 8


async def test_a_gateway_waits_5_to_10_and_10_to_15_seconds_and_runs_3_times() -> None:
    _, moments, letter = await outcome(DOWN, GATEWAY)
    first, second = gaps(moments)
    assert 5.0 <= first <= 10.0
    assert 10.0 <= second <= 15.0
    assert letter.attempts == 3


async def test_the_time_of_the_next_attempt_is_stored_and_cleared_when_it_starts() -> None:
    app = new_app()
    seen: list[RunView] = []

    @app.task(retry=SECOND)
    async def flaky() -> None:
        seen.append(await run.view())
        if len(seen) == 1:
            raise ConnectionError

    async with bench(app) as test:
        run = await app.start(flaky)
        await test.drain()
        waiting = await run.view()
        assert (waiting.place, waiting.state, waiting.step_state) == ("waiting", "RUNNING", "RETRYING")
        assert waiting.due_at == EPOCH + 1.0
        assert (waiting.failures, waiting.error_class) == (1, "retryable")
        assert waiting.first_failed_at == waiting.last_failed_at == EPOCH
        [step] = (await run.history()).steps
        assert (step.next_retry_at, step.attempt_count, step.max_retries) == (EPOCH + 1.0, 1, 2)
        assert step.error_stack is not None
        assert "ConnectionError" in step.error_stack
        assert await test.advance(0.999) == 0
        assert await test.advance(0.001) == 1
        done = await run.view()
    assert (seen[1].due_at, seen[1].failures, seen[1].attempt) == (None, 1, 2)
    assert (done.state, done.failures, done.error_class, done.first_failed_at) == ("SUCCESS", 0, None, None)


async def test_the_wait_for_a_hint_is_exact_and_costs_nothing() -> None:
    errors = [RateLimitedError(retry_after=each) for each in (7.25, 90.0, 0.5)] + DOWN
    run, moments, letter = await outcome(errors, SECOND)
    assert gaps(moments) == [7.25, 90.0, 0.5, 1.0, 2.0]
    assert (run.attempt, run.failures, run.rate_limit_waits) == (6, 3, 3)
    assert letter.reason == "attempts_spent"


async def test_d4_a_hint_of_three_days_is_waited_for_exactly_and_a_longer_one_for_a_week() -> None:
    day = 86_400.0
    _, moments, _ = await outcome([RateLimitedError(retry_after=hint * day) for hint in (3, 9)], SECOND)
    assert gaps(moments) == [3 * day, 7 * day]


async def test_d4_a_setting_limits_the_hints_of_servers() -> None:
    app = Redrive("sqlite://:memory:", settings=Settings(retry_after_max_days=0.001), log=False)
    moments: list[float] = []

    @app.task(retry=SECOND)
    async def limited() -> None:
        moments.append(test.clock.time)
        if len(moments) < 2:
            raise RateLimitedError(retry_after=3600.0)

    async with seamed(app, watch=True) as (test, _):
        await app.start(limited)
        await settle(test, app)
    assert gaps(moments) == [pytest.approx(86.4)]


async def test_rate_limits_have_a_separate_limit() -> None:
    limited = replace(SECOND, max_rate_limit_waits=3)
    run, moments, letter = await outcome([RateLimitedError(retry_after=5.0)] * 9, limited)
    assert gaps(moments) == [5.0, 5.0, 5.0]
    assert (run.rate_limit_waits, letter.reason, letter.attempts) == (3, "rate_limit_waits_spent", 4)


async def test_without_a_hint_a_rate_limit_is_an_ordinary_failure() -> None:
    run, moments, letter = await outcome([RateLimitedError("slow down")] * 9, SECOND)
    assert gaps(moments) == [1.0, 2.0]
    assert (run.rate_limit_waits, run.error_class, letter.reason) == (0, "rate_limited", "attempts_spent")


async def test_a_hint_of_a_status_error_counts_too() -> None:
    error = HttpStatusError("429", status=429, headers={"retry-after": "33"})
    _, moments, _ = await outcome([error], SECOND)
    assert gaps(moments) == [33.0]


@pytest.mark.parametrize("hint", [float("nan"), float("inf"), -5.0, "soon", 10**400, 1e300])
async def test_no_hint_however_odd_strands_the_work(hint: Any) -> None:
    run, moments, _ = await outcome([RateLimitedError(retry_after=hint)], SECOND)
    assert run.state == "SUCCESS"
    assert 0.5 <= moments[1] - moments[0] <= 7 * 86_400.0


async def test_each_category_can_have_its_own_backoff() -> None:
    policy = replace(
        SECOND, max_attempts=5, backoff_by_category={Category.TIMEOUT: Backoff(Exponential(100.0))}
    )
    errors = [ConnectionError(), TimeoutError(), ConnectionError(), AttemptTimeoutError()]
    _, moments, _ = await outcome(errors, policy)
    assert gaps(moments) == [1.0, 200.0, 4.0, 800.0]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (FinalError("no"), Category.UNKNOWN),
        (ValueError("bad"), None),
        (PermissionError(), Category.PERMISSION),
        (HttpStatusError("404", status=404), Category.PROVIDER_4XX),
        (ZeroDivisionError(), Category.UNKNOWN),
        (RuntimeError("?"), Category.UNKNOWN),
    ],
)
async def test_final_and_unknown_errors_end_at_once(error: Exception, category: Category | None) -> None:
    run, moments, letter = await outcome([error] * 9, STEP)
    assert len(moments) == 1
    assert (run.state, run.step_state, run.attempt) == ("DLQ_PENDING", "DLQ", 1)
    known = not isinstance(error, ZeroDivisionError | RuntimeError)
    assert letter.reason == ("final_error" if known else "unknown_error")
    assert (letter.attempts, letter.failures, letter.error_class) == (1, 1, "final")
    assert category is None or letter.category == category


async def test_an_application_can_classify_its_own_errors() -> None:
    class BusyError(Exception):
        pass

    classifier = Classifier([Rule.for_type(BusyError, Category.RESOURCE)], unknown=ErrorClass.RETRYABLE)
    run, moments, _ = await outcome([BusyError(), KeyError("x")], SECOND, classifier=classifier)
    assert run.state == "SUCCESS"
    assert gaps(moments) == [1.0, 2.0]


# Effects that must not happen twice


async def test_unsafe_work_that_may_have_been_executed_is_not_repeated() -> None:
    run, moments, letter = await outcome([ConnectionResetError()], SECOND, effect="unsafe")
    assert len(moments) == 1
    assert (run.state, letter.reason, letter.attempts) == ("DLQ_PENDING", "not_repeatable", 1)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        HttpStatusError("429", status=429),
        RateLimitedError("later", retry_after=1.0),
    ],
)
async def test_unsafe_work_that_cannot_have_been_executed_is_repeated(error: Exception) -> None:
    run, moments, _ = await outcome([error], SECOND, effect="unsafe")
    assert gaps(moments) == [1.0]
    assert run.state == "SUCCESS"


async def test_unsafe_work_that_its_own_open_breaker_blocked_is_repeated() -> None:
    error = BreakerOpenError("bank", "open", retry_after=20.0)
    run, moments, _ = await outcome([error] * 3, SECOND, effect="unsafe")
    assert gaps(moments) == [20.0, 20.0, 20.0]
    assert (run.state, run.attempt) == ("SUCCESS", 4)


# Waits that cost no attempt


async def test_deferring_costs_no_attempt() -> None:
    errors = [DeferredError("later", retry_after=each) for each in (3600.0, 0.25, 30.0)] + DOWN
    run, moments, letter = await outcome(errors, SECOND)
    assert gaps(moments) == [3600.0, 0.25, 30.0, 1.0, 2.0]
    assert (run.failures, run.holds, letter.reason) == (3, 3, "attempts_spent")


async def test_a_task_can_defer_itself_too_often() -> None:
    errors = [DeferredError("later", retry_after=1.0)] * 9
    run, moments, letter = await outcome(errors, replace(SECOND, max_holds=2))
    assert len(moments) == 3
    assert (run.state, letter.reason) == ("DLQ_PENDING", "holds_spent")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -3.0, 1e300])
async def test_an_odd_deferral_does_not_strand_the_work(seconds: float) -> None:
    """It must neither disappear forever nor loop."""
    app = new_app()
    moments: list[float] = []

    @app.task
    async def odd() -> str:
        moments.append(test.clock.time)
        if len(moments) == 1:
            raise DeferredError("later", retry_after=seconds)
        return "done"

    async with bench(app) as test:
        assert await test.execute(odd) == "done"
    assert 0.0 <= moments[1] <= 366 * 86_400.0


async def test_an_unavailable_dependency_costs_no_attempt() -> None:
    errors = [BreakerOpenError("bank", "open"), BreakerOpenError("bank", "open", retry_after=9.0)]
    run, moments, _ = await outcome([*errors, *DOWN], SECOND)
    assert gaps(moments) == [1.0, 9.0, 1.0, 2.0]
    assert (run.failures, run.holds) == (3, 2)


# Endings


@pytest.mark.parametrize(
    ("ending", "state", "step_state"),
    [("bury", "DLQ_PENDING", "DLQ"), ("block", "DLQ_PENDING", "BLOCKED"), ("fail", "FAILED", "FAILED")],
)
@pytest.mark.parametrize(
    ("errors", "reason", "options"),
    [
        ([FinalError("no")], "final_error", {}),
        (DOWN, "attempts_spent", {}),
        ([RateLimitedError(retry_after=1.0)] * 9, "rate_limit_waits_spent", {}),
        ([ConnectionResetError()], "not_repeatable", {"effect": "unsafe"}),
        ([BreakerOpenError("x", "open", retry_after=1.0)] * 9, "holds_spent", {}),
        ([DeferredError("later", retry_after=1.0)] * 9, "holds_spent", {}),
    ],
    ids=["final", "spent", "rate limited", "unsafe", "unavailable", "deferred"],
)
async def test_the_task_decides_how_its_run_ends_and_a_dead_letter_is_written_in_each_case(
    ending: str, state: str, step_state: str, errors: list[Exception], reason: str, options: dict[str, Any]
) -> None:
    policy = replace(SECOND, max_rate_limit_waits=2, max_holds=2)
    run, _, letter = await outcome(errors, policy, when_exhausted=ending, **options)
    assert (run.state, run.step_state) == (state, step_state)
    assert (letter.state, letter.reason) == ("OPEN", reason)
    assert run.due_at is None


async def test_waiting_callers_learn_the_outcome() -> None:
    app = new_app()

    @app.task(max_attempts=1)
    async def down() -> None:
        raise ConnectionError("no route")

    async with bench(app) as test:
        with pytest.raises(RunFailedError, match=r"step 'down' failed after 1 attempt .*no route") as caught:
            await test.execute(down)
        assert caught.value.state == "DLQ_PENDING"


async def test_a_dead_letter_contains_the_full_context() -> None:
    app = new_app()

    @app.task(retry=SECOND)
    async def charge(order: dict[str, Any], config: dict[str, Any]) -> None:
        raise RetryableError("card 4111 1111 1111 1111 declined")

    app.workflow("shop", [charge.step("pay", config={"api_key": "sk_live_abcdefghijklmnop", "mode": "fast"})])
    async with bench(app) as test:
        payload = {"order": {"id": 7, "password": "hunter2"}}["order"]
        run = await app.start("shop", payload, key="order-7", tags=["a"], metadata={"team": "x"}, org="acme")
        await settle(test, app)
        letter = await run.dead_letter()
    assert isinstance(letter, DeadLetter)
    assert (letter.org, letter.run_id, letter.step_index, letter.step, letter.task) == (
        ("acme", run.id, 0, "pay", "charge")
    )
    assert (letter.workflow, letter.queue, letter.state) == ("shop", "default", "OPEN")
    assert (letter.attempts, letter.failures, letter.replay_count) == (3, 3, 0)
    assert letter.first_failed_at == EPOCH
    assert letter.last_failed_at == letter.created_at == letter.updated_at == EPOCH + 3.0
    assert letter.idempotency_key == "acme:order-7:0"
    assert (letter.tags, letter.metadata) == (("a",), {"team": "x"})
    assert letter.correlation_id == run.id
    everything = repr(letter)
    for secret in ("hunter2", "sk_live_abcdefghijklmnop", "4111 1111"):
        assert secret not in everything
    assert letter.payload["id"] == 7
    assert "fast" in str(letter.config)
    assert "Traceback" in letter.stack
    assert letter.decision.code == "attempts_spent"


async def test_success_after_retries_is_emitted_with_the_failures() -> None:
    app = new_app()
    emitted = EventCollector(app)
    tries: list[int] = []

    @app.task(retry=SECOND)
    def flaky(context: Context) -> int:
        tries.append(context.failures)
        if len(tries) < 3:
            raise ConnectionError
        return context.attempt

    async with bench(app) as test:
        assert await test.execute(flaky) == 3
    assert tries == [0, 1, 2]
    assert [each.explanation.failures for each in emitted.of(RetryScheduled)] == [1, 2]


async def test_waiting_retries_do_not_hold_new_work_up_nor_are_they_overtaken_forever() -> None:
    """D6, D9: in the order of submission, so the old run's retry comes before newer work."""
    app = new_app()
    order: list[str] = []
    failed: set[str] = set()

    @app.task(retry=SECOND)
    async def work(name: str) -> None:
        order.append(name)
        if name == "old" and name not in failed:
            failed.add(name)
            raise ConnectionError

    async with bench(app) as test:
        await app.start(work, "old")
        await test.drain()
        await app.start(work, "new")
        await test.drain()
        test.clock.advance(1.0)
        for number in range(3):
            await app.start(work, f"newest {number}")
        await app.start(work, "urgent", priority=1)
        await test.drain()
    assert order == ["old", "new", "urgent", "old", "newest 0", "newest 1", "newest 2"]
