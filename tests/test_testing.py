"""redrive.testing: guarded calls without real waits."""

import asyncio
from datetime import timedelta

import pytest

from redrive import Backoff, BreakerPolicy, RateLimitedError, dependency, retry
from redrive.clock import SYSTEM_CLOCK
from redrive.errors import BreakerOpenError, DeferredError
from redrive.policy import Exponential
from redrive.testing import VirtualClock, virtual_time

HOURS = Backoff(Exponential(3600.0))


@retry("import", backoff=HOURS, longest_wait=1e6)
def always_down() -> None:
    raise ConnectionError("down")


@retry("import", backoff=HOURS, longest_wait=1e6)
async def always_down_async() -> None:
    raise ConnectionError("down")


def test_hours_of_waiting_pass_at_once() -> None:
    with virtual_time() as clock, pytest.raises(ConnectionError):
        always_down()
    assert clock.waits == [3600.0, 7200.0]


def test_async_too() -> None:
    with virtual_time() as clock, pytest.raises(ConnectionError):
        asyncio.run(always_down_async())
    assert clock.waits == [3600.0, 7200.0]


def test_afterwards_the_machine_has_its_own_time_back() -> None:
    before = SYSTEM_CLOCK.monotonic()
    with virtual_time() as clock:
        clock.advance(1e6)
        assert SYSTEM_CLOCK.monotonic() == clock.monotonic() == 1e6
    assert before <= SYSTEM_CLOCK.monotonic() < before + 1e5


def test_a_clock_is_advanced_by_a_timedelta() -> None:
    clock = VirtualClock(overshoot=timedelta(milliseconds=500))
    clock.advance(timedelta(minutes=1))
    clock.pause(2.0)
    assert clock.time == 62.5


def test_a_breaker_can_be_watched_through_an_outage() -> None:
    policy = BreakerPolicy(window_calls=2, minimum_calls=2, cool_down=60.0, successes_to_close=1)
    flaky = dependency("testing-flaky", breaker=policy)
    with virtual_time() as clock:
        guarded = retry("ask", dependency="testing-flaky", max_attempts=1)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                guarded(lambda: (_ for _ in ()).throw(ConnectionError()))()
        with pytest.raises(BreakerOpenError):
            guarded(str)()
        clock.advance(60.0)
        assert guarded(str)() == ""
    assert flaky.snapshot().state == "CLOSED"


def test_each_block_starts_with_full_budgets_and_closed_breakers() -> None:
    flaky = dependency("testing-fresh", breaker=BreakerPolicy(window_calls=1, minimum_calls=1))

    @retry("ask", dependency="testing-fresh", max_attempts=1)
    def down() -> None:
        raise ConnectionError

    for _ in range(3):
        with virtual_time():
            assert flaky.snapshot().state == "CLOSED"
            with pytest.raises(ConnectionError):
                down()
            assert flaky.snapshot().state == "OPEN"


def test_a_wait_that_is_too_long_is_still_deferred() -> None:
    @retry("ask")
    def limited() -> None:
        raise RateLimitedError(retry_after=300.0)

    with virtual_time(), pytest.raises(DeferredError):
        limited()
