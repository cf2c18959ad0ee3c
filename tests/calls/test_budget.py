"""The retry budget of a dependency: retries cannot multiply an outage, and a rejected retry is visible."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, BreakerPolicy, Guard, RetryableError, call, dependency
from redrive.calls import Dependency
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.model.decision import Reason
from redrive.policy import BudgetPolicy, Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())


def with_budget(capacity: float, cost: float = 1.0, gain: float = 1.0) -> Dependency:
    return Dependency(
        "shop",
        breaker=BreakerPolicy(window_calls=None, minimum_calls=1_000_000),
        budget=BudgetPolicy(capacity=capacity, retry_cost=cost, success_gain=gain),
    )


def guard(where: Dependency | str | None, **options: object) -> Guard:
    return Guard("work", backoff=AT_ONCE, dependency=where, **options)  # type: ignore[arg-type]


def failing() -> Script:
    return Script(*[RetryableError() for _ in range(10)])


class TestBudget:
    def test_empties_and_then_the_first_attempt_is_all_there_is(self, play: Play) -> None:
        where = with_budget(5.0)
        executions = []
        for _ in range(5):
            script = failing()
            with pytest.raises(RetryableError):
                play(script, guard(where))
            executions.append(script.executions)
        assert executions == [3, 3, 2, 1, 1]
        assert where.retry_tokens == 0.0

    def test_first_attempts_are_free(self, play: Play) -> None:
        where = with_budget(0.0)
        for _ in range(10):
            assert play(Script("done"), guard(where)) == "done"

    def test_refills_by_successes(self, play: Play) -> None:
        where = with_budget(4.0, cost=2.0, gain=0.5)
        with pytest.raises(RetryableError):
            play(failing(), guard(where))
        assert where.retry_tokens == 0.0
        for _ in range(3):
            play(Script("done"), guard(where))
        assert where.retry_tokens == 1.5
        assert self.executions(where, play) == 1
        play(Script("done"), guard(where))
        assert self.executions(where, play) == 2

    def executions(self, where: Dependency, play: Play) -> int:
        script = failing()
        with pytest.raises(RetryableError):
            play(script, guard(where))
        return script.executions

    def test_is_never_more_than_full(self, play: Play) -> None:
        where = with_budget(3.0)
        for _ in range(20):
            play(Script("done"), guard(where))
        assert where.retry_tokens == 3.0

    def test_a_recovery_gives_back_once(self, play: Play) -> None:
        where = with_budget(10.0)
        play(Script(RetryableError(), RetryableError(), "done"), guard(where))
        assert where.retry_tokens == 9.0

    def test_final_failures_cost_nothing(self, play: Play) -> None:
        where = with_budget(10.0)
        with pytest.raises(KeyError):
            play(Script(KeyError()), guard(where))
        with pytest.raises(RetryableError):
            play(failing(), guard(where, max_attempts=1))
        assert where.retry_tokens == 10.0

    def test_a_retry_that_the_deadline_forbids_costs_nothing(self, play: Play, clock: VirtualClock) -> None:
        where = with_budget(10.0)
        script = Script(RetryableError(retry_after=9.0))
        with pytest.raises(RetryableError):
            play(script, guard(where, deadline=5.0, clock=clock))
        assert where.retry_tokens == 10.0

    def test_is_on_by_default_per_operation(self, play: Play) -> None:
        """100 retries in a row, then no more."""
        retries = 0
        for _ in range(60):
            script = failing()
            with pytest.raises(RetryableError):
                play(script, guard(None))
            retries += script.executions - 1
        assert retries == 100
        other = failing()
        with pytest.raises(RetryableError):
            Guard("another operation", backoff=AT_ONCE).call(other)
        assert other.executions == 3

    def test_is_shared_by_calls_of_the_same_name(self) -> None:
        executions = 0

        def fail(attempt: Attempt) -> None:
            nonlocal executions
            executions += 1
            raise RetryableError

        for _ in range(60):
            with pytest.raises(RetryableError):
                call("work", fail, backoff=AT_ONCE)
        assert executions == 160


class TestRefusal:
    @pytest.fixture
    def refused(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> tuple[RetryableError, list[CallEvent], list[logging.LogRecord]]:
        caplog.set_level(logging.INFO, "redrive")
        events: list[CallEvent] = []
        with pytest.raises(RetryableError) as caught:
            play(failing(), guard(with_budget(0.5), hooks=[events.append]))
        return caught.value, events, caplog.records

    def test_is_in_the_note(self, refused: tuple[RetryableError, object, object]) -> None:
        assert "the retry budget is used up" in refused[0].__notes__[0]

    def test_is_in_the_event(self, refused: tuple[object, list[CallEvent], object]) -> None:
        (event,) = refused[1]
        assert isinstance(event, AttemptFailed)
        assert event.reason is Reason.BUDGET_EMPTY
        assert event.wait is None

    def test_is_in_the_log(self, refused: tuple[object, object, list[logging.LogRecord]]) -> None:
        (record,) = refused[2]
        assert record.levelno == logging.WARNING
        assert record.fields["reason"] == "budget_empty"  # type: ignore[attr-defined]
        assert "budget_empty" in record.getMessage()


class TestSharing:
    def test_two_guards_one_dependency(self) -> None:
        dependency("shop", budget=BudgetPolicy(capacity=2.0, retry_cost=1.0, success_gain=0.0))
        first, second = failing(), failing()
        with pytest.raises(RetryableError):
            guard("shop").call(first)
        with pytest.raises(RetryableError):
            Guard("other work", backoff=AT_ONCE, dependency="shop").call(second)
        assert (first.executions, second.executions) == (3, 1)

    def test_threads_spend_exactly_the_available_tokens(self) -> None:
        where = with_budget(500.0, gain=0.0)
        ready = threading.Barrier(8, timeout=5)

        def hammer() -> int:
            executions = 0
            ready.wait()
            for _ in range(100):
                script = failing()
                with pytest.raises(RetryableError):
                    guard(where).call(script)
                executions += script.executions
            return executions

        with ThreadPoolExecutor(8) as pool:
            executions = sum(future.result() for future in [pool.submit(hammer) for _ in range(8)])
        assert executions == 800 + 500
        assert where.retry_tokens == 0.0

    def test_threads_give_back_exactly_the_earned_tokens(self) -> None:
        where = with_budget(100_000.0, cost=1000.0, gain=1.0)
        for _ in range(20):
            with pytest.raises(RetryableError):
                guard(where).call(failing())
        before = where.retry_tokens
        ready = threading.Barrier(8, timeout=5)

        def hammer() -> None:
            ready.wait()
            for _ in range(1000):
                guard_of_all.call(_nothing)

        guard_of_all = guard(where)
        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(hammer) for _ in range(8)]:
                future.result()
        assert where.retry_tokens == before + 8000

    async def test_tasks_spend_exactly_the_available_tokens(self) -> None:
        where = with_budget(30.0, gain=0.0)
        executions = 0

        async def fail(attempt: Attempt) -> None:
            nonlocal executions
            executions += 1
            await asyncio.sleep(0)
            raise RetryableError

        results = await asyncio.gather(*(guard(where).call(fail) for _ in range(40)), return_exceptions=True)
        assert all(isinstance(result, RetryableError) for result in results)
        assert executions == 40 + 30


def _nothing(attempt: Attempt) -> None:
    return None
