"""Retrying a block of code; `play` also runs all other guard tests as blocks."""

from __future__ import annotations

import asyncio

import pytest

from redrive import Backoff, BreakerPolicy, RetryableError, attempts, classify
from redrive.calls import Dependency, current_attempt
from redrive.errors import AttemptTimeoutError, BreakerOpenError, InvalidValueError
from redrive.model.breaker import BreakerState
from redrive.policy import Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())
SHORT = 0.03


class TestLoop:
    def test_the_block_is_repeated_until_it_succeeds(self, clock: VirtualClock) -> None:
        numbers = []
        for attempt in attempts("fetch", clock=clock):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    raise RetryableError
        assert numbers == [1, 2, 3]
        assert len(clock.waits) == 2

    def test_a_final_error_leaves_the_loop(self) -> None:
        numbers = []
        with pytest.raises(ValueError, match="no page"):
            for attempt in attempts("fetch"):
                with attempt:
                    numbers.append(attempt.number)
                    raise ValueError("no page")
        assert numbers == [1]

    @pytest.mark.parametrize("leave", ["break", "continue"])
    def test_leaving_the_block_early_is_a_success(self, leave: str) -> None:
        numbers = []
        for attempt in attempts("fetch"):
            with attempt:
                numbers.append(attempt.number)
                if leave == "break":
                    break
                continue
        assert numbers == [1]

    def test_the_attempt_has_the_key_and_the_remaining_time(self, clock: VirtualClock) -> None:
        for attempt in attempts("pay", idempotency_key="order-7", timeout=5.0, clock=clock):
            with attempt as same:
                assert same is attempt
                assert attempt.idempotency_key == "order-7"
                assert attempt.remaining() == 5.0
                assert repr(attempt) == "<Attempt 1 of at most 3: pay>"

    def test_code_inside_sees_the_current_attempt(self) -> None:
        for attempt in attempts("fetch"):
            with attempt:
                inside = current_attempt()
                assert inside is not None
                assert inside.operation == "fetch"
        assert current_attempt() is None

    def test_an_open_breaker_keeps_the_block_from_running(self) -> None:
        dependency = Dependency("shop", breaker=BreakerPolicy(window_calls=1, minimum_calls=1))
        dependency.report_failure(dependency.admit(), classify(ConnectionResetError()), 0.0)
        assert dependency.snapshot().state is BreakerState.OPEN
        with pytest.raises(BreakerOpenError):
            for _ in attempts("fetch", dependency=dependency):
                raise AssertionError("the block was executed")

    def test_an_interrupt_is_no_failure(self) -> None:
        numbers = []
        with pytest.raises(KeyboardInterrupt):
            for attempt in attempts("fetch"):
                with attempt:
                    numbers.append(attempt.number)
                    raise KeyboardInterrupt
        assert numbers == [1]
        assert current_attempt() is None


class TestMistakes:
    def test_an_attempt_that_is_not_entered(self) -> None:
        with pytest.raises(InvalidValueError, match="must enter its attempt: `with attempt:`"):
            for _ in attempts("fetch"):
                pass

    def test_an_attempt_that_is_entered_twice(self) -> None:
        for attempt in attempts("fetch"):
            with attempt:
                pass
            with pytest.raises(InvalidValueError, match="was already entered"), attempt:
                pass

    def test_an_unknown_option(self) -> None:
        with pytest.raises(TypeError, match="unknown option 'tries'"):
            attempts("fetch", tries=3)  # type: ignore[call-arg]


class TestAsync:
    async def test_a_block_that_hangs_is_stopped_and_retried(self) -> None:
        numbers = []
        async for attempt in attempts("fetch", timeout=SHORT, backoff=AT_ONCE):
            async with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    await asyncio.get_running_loop().create_future()
        assert numbers == [1, 2, 3]

    async def test_the_last_timeout_is_raised(self) -> None:
        with pytest.raises(AttemptTimeoutError, match=r"attempt 2 of 'fetch' took longer than 0\.03 s"):
            async for attempt in attempts("fetch", timeout=SHORT, max_attempts=2, backoff=AT_ONCE):
                async with attempt:
                    await asyncio.get_running_loop().create_future()

    async def test_a_timeout_error_of_the_block_itself_is_an_ordinary_failure(self) -> None:
        with pytest.raises(TimeoutError, match="the server's own") as caught:
            async for attempt in attempts("fetch", max_attempts=1):
                async with attempt:
                    raise TimeoutError("the server's own")
        assert not isinstance(caught.value, AttemptTimeoutError)

    async def test_cancelling_passes_through(self) -> None:
        started = asyncio.Event()
        numbers = []

        async def work() -> None:
            async for attempt in attempts("fetch"):
                async with attempt:
                    numbers.append(attempt.number)
                    started.set()
                    await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(work())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert numbers == [1]
