"""Interrupting an async attempt at its timeout, on a real event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from redrive import Attempt, Backoff, Category, Guard, RetryableError, classify, retry
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import AttemptTimeoutError, RedriveError
from redrive.policy import Immediate

AT_ONCE = Backoff(Immediate())
SHORT = 0.03

R = TypeVar("R")


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


class TestTimeout:
    async def test_an_attempt_that_hangs_is_stopped_and_retried(self) -> None:
        numbers: list[int] = []

        @retry(timeout=SHORT, backoff=AT_ONCE)
        async def work() -> str:
            numbers.append(len(numbers) + 1)
            if len(numbers) < 3:
                await hang()
            return "done"

        assert await work() == "done"
        assert numbers == [1, 2, 3]

    async def test_the_final_error(self) -> None:
        guard = Guard("call home", timeout=SHORT, max_attempts=2, backoff=AT_ONCE)
        with pytest.raises(TimeoutError) as caught:
            await guard.call(ignoring(hang))
        error = caught.value
        assert isinstance(error, AttemptTimeoutError)
        assert isinstance(error, RedriveError)
        assert str(error) == "attempt 2 of 'call home' took longer than 0.03 s"
        assert classify(error).category is Category.TIMEOUT

    async def test_it_is_classified_as_a_timeout(self) -> None:
        events: list[CallEvent] = []
        guard = Guard("work", timeout=SHORT, max_attempts=1, hooks=[events.append])
        with pytest.raises(AttemptTimeoutError):
            await guard.call(ignoring(hang))
        (event,) = events
        assert isinstance(event, AttemptFailed)
        assert event.failure.category is Category.TIMEOUT
        assert event.failure.retryable
        assert event.seconds >= SHORT

    async def test_cleanup_runs_and_may_take_its_time(self) -> None:
        seen: list[str] = []

        @retry(timeout=SHORT, max_attempts=1)
        async def work() -> None:
            try:
                await hang()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            finally:
                await asyncio.sleep(0.01)
                seen.append("cleaned up")

        with pytest.raises(AttemptTimeoutError):
            await work()
        assert seen == ["cancelled", "cleaned up"]

    async def test_an_exception_of_the_cleanup_is_passed_on(self) -> None:
        @retry(timeout=SHORT, max_attempts=1)
        async def work() -> None:
            try:
                await hang()
            finally:
                raise KeyError("cleanup")

        with pytest.raises(KeyError, match="cleanup"):
            await work()
        assert_not_cancelling()

    async def test_a_result_given_in_spite_of_the_cancellation_counts(self) -> None:
        @retry(timeout=SHORT, max_attempts=1)
        async def work() -> str:
            try:
                await hang()
            except asyncio.CancelledError:
                return "as far as I got"
            return "all"

        assert await work() == "as far as I got"
        assert_not_cancelling()

    async def test_an_attempt_that_blocked_past_its_time_is_stopped_at_its_first_wait(self) -> None:
        seen: list[str] = []

        @retry(timeout=SHORT, max_attempts=1)
        async def work() -> None:
            time.sleep(SHORT * 1.5)
            await asyncio.sleep(0.2)
            seen.append("went on")

        with pytest.raises(AttemptTimeoutError):
            await work()
        assert seen == []

    async def test_an_attempt_that_never_waits_is_not_stopped(self) -> None:
        @retry(timeout=0.001, max_attempts=1)
        async def work() -> str:
            time.sleep(0.01)
            return "done"

        assert await work() == "done"

    async def test_many_short_waits_are_limited_together(self) -> None:
        steps = 0

        @retry(timeout=0.5, max_attempts=1)
        async def work() -> None:
            nonlocal steps
            while True:
                await asyncio.sleep(0.001)
                steps += 1

        with pytest.raises(AttemptTimeoutError):
            await work()
        assert steps > 1

    async def test_bare_yields_are_limited_too(self) -> None:
        @retry(timeout=SHORT, max_attempts=1)
        async def work() -> None:
            while True:
                await asyncio.sleep(0)

        with pytest.raises(AttemptTimeoutError):
            await work()

    async def test_the_deadline_stops_an_attempt_before_its_timeout(self) -> None:
        guard = Guard("work", timeout=3600.0, deadline=SHORT, max_attempts=5, backoff=AT_ONCE)
        with pytest.raises(AttemptTimeoutError):
            await guard.call(ignoring(hang))

    async def test_the_task_is_left_as_it_was(self) -> None:
        for _ in range(3):
            with pytest.raises(AttemptTimeoutError):
                await Guard("work", timeout=0.01, max_attempts=1).call(ignoring(hang))
            assert_not_cancelling()
        await asyncio.sleep(0)

    async def test_calls_side_by_side_are_stopped_separately(self) -> None:
        guard = Guard("work", timeout=0.06, max_attempts=1)

        async def work(attempt: Attempt) -> str:
            await asyncio.sleep(0)  # on a busy machine, any other time may exceed the limit
            return "quick"

        results = await asyncio.gather(
            guard.call(ignoring(hang)),
            guard.call(work),
            guard.call(ignoring(hang)),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [AttemptTimeoutError, str, AttemptTimeoutError]


class TestNested:
    async def test_inner_and_outer_of_the_same_length(self) -> None:
        """Both limits end together: one timeout, no stray cancellation."""
        inner = Guard("inner", timeout=0.02, max_attempts=1)
        outer = Guard("outer", timeout=0.02, max_attempts=1)
        for _ in range(5):
            with pytest.raises(AttemptTimeoutError):
                await outer.call(ignoring(lambda: inner.call(ignoring(hang))))
            assert_not_cancelling()
            await asyncio.sleep(0)

    async def test_the_inner_call_is_stopped_with_the_outer_attempt(self) -> None:
        seen: list[int] = []
        inner = Guard("inner", timeout=5.0, max_attempts=50, backoff=AT_ONCE)

        async def inner_work(attempt: Attempt) -> None:
            seen.append(attempt.number)
            await hang()

        outer = Guard("outer", timeout=SHORT, max_attempts=2, backoff=AT_ONCE)
        with pytest.raises(AttemptTimeoutError):
            await outer.call(ignoring(lambda: inner.call(inner_work)))
        assert seen == [1, 1]

    async def test_an_inner_timeout_can_be_retried_within_the_outer_attempt(self) -> None:
        numbers: list[int] = []

        async def inner_work(attempt: Attempt) -> str:
            numbers.append(attempt.number)
            if attempt.number == 1:
                await hang()
            return "done"

        inner = Guard("inner", timeout=SHORT, backoff=AT_ONCE)
        outer = Guard("outer", timeout=5.0, max_attempts=1)
        assert await outer.call(ignoring(lambda: inner.call(inner_work))) == "done"
        assert numbers == [1, 2]


class TestOwnTimeouts:
    """Timeouts of the application stay its own."""

    async def test_a_timeout_error_of_the_function_is_passed_unchanged(self) -> None:
        mine = TimeoutError("mine")

        @retry(max_attempts=1)
        async def work() -> None:
            await asyncio.sleep(0)
            raise mine

        with pytest.raises(TimeoutError) as caught:
            await work()
        assert caught.value is mine
        assert not isinstance(caught.value, AttemptTimeoutError)

    async def test_also_when_it_is_raised_before_any_wait(self) -> None:
        mine = TimeoutError("mine")

        @retry(max_attempts=1)
        async def work() -> None:
            raise mine

        with pytest.raises(TimeoutError) as caught:
            await work()
        assert caught.value is mine

    async def test_inside_it_is_retried_as_a_timeout(self) -> None:
        numbers: list[int] = []

        @retry(backoff=AT_ONCE)
        async def work() -> str:
            numbers.append(1)
            async with asyncio.timeout(0.01 if len(numbers) < 2 else 5.0):
                if len(numbers) < 2:
                    await hang()
            return "done"

        assert await work() == "done"
        assert len(numbers) == 2

    async def test_around_during_an_attempt(self) -> None:
        events: list[CallEvent] = []

        @retry(timeout=5.0, hooks=[events.append])
        async def work() -> None:
            await hang()

        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(SHORT):
                await work()
        assert not isinstance(caught.value, AttemptTimeoutError)
        assert events == []
        assert_not_cancelling()

    async def test_around_during_the_wait_between_attempts(self) -> None:
        calls: list[int] = []

        @retry(backoff=Backoff(Immediate(), jitter=Fixed(5.0)))
        async def work() -> None:
            calls.append(1)
            raise RetryableError

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await work()
        assert calls == [1]
        assert_not_cancelling()

    async def test_around_at_the_very_same_time(self) -> None:
        """Whichever limit comes first, the outer block ends with its own TimeoutError, once."""
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await Guard("work", timeout=0.02, max_attempts=50, backoff=AT_ONCE).call(ignoring(hang))
            assert_not_cancelling()
            await asyncio.sleep(0)

    async def test_wait_for_around(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Guard("work", timeout=5.0).call(ignoring(hang)), SHORT)


class Fixed:
    """A jitter without randomness: the wait is always the same."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def interval(self, plan: object) -> tuple[float, float]:
        return self._seconds, self._seconds

    def describe(self) -> str:
        return f"{self._seconds} s"


def ignoring(function: Callable[[], Awaitable[R]]) -> Callable[[Attempt], Coroutine[Any, Any, R]]:
    """Wrap a function so that it ignores the attempt."""

    async def work(attempt: Attempt) -> R:
        return await function()

    return work


def assert_not_cancelling() -> None:
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
