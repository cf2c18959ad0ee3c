"""The time limits of an attempt and of a call, on a clock that the test moves (G1, G2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.calls.script import Play, Script, play_async, play_async_block, play_block

from redrive import Attempt, Backoff, Guard, RateLimitedError, attempts, call, retry
from redrive.calls import current_attempt
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import AttemptTimeoutError, DeferredError, RetryableError
from redrive.model.decision import Reason
from redrive.policy import Immediate, Linear
from redrive.testing import VirtualClock


def every(seconds: float) -> Backoff:
    return Backoff(Linear(seconds, 0.0))


def failing(clock: VirtualClock, takes: float) -> Script:
    return Script(*[RetryableError() for _ in range(50)], clock=clock, takes=(takes,) * 50)


class TestDeadline:
    @pytest.mark.parametrize(
        ("deadline", "takes", "wait", "starts"),
        [
            (10.0, 0.0, 4.0, [0.0, 4.0, 8.0]),
            (8.0, 0.0, 4.0, [0.0, 4.0]),  # the third would start exactly at the deadline
            (8.001, 0.0, 4.0, [0.0, 4.0, 8.0]),
            (10.0, 3.0, 1.0, [0.0, 4.0, 8.0]),
            (4.0, 3.0, 1.0, [0.0]),
            (1.0, 3.0, 1.0, [0.0]),  # the first attempt alone took longer
            (2.5, 1.0, 0.0, [0.0, 1.0, 2.0]),
        ],
    )
    def test_no_attempt_starts_at_or_after_it_and_no_wait_would_pass_it(
        self,
        clock: VirtualClock,
        play: Play,
        deadline: float,
        takes: float,
        wait: float,
        starts: list[float],
    ) -> None:
        script = failing(clock, takes)
        guard = Guard("work", max_attempts=50, backoff=every(wait), deadline=deadline, clock=clock)
        with pytest.raises(RetryableError):
            play(script, guard)
        assert script.times == starts
        assert sum(clock.waits) < deadline

    def test_giving_up_is_immediate(self, clock: VirtualClock, play: Play) -> None:
        """A wait that ends too late is not started."""
        script = failing(clock, 0.0)
        with pytest.raises(RetryableError) as caught:
            play(script, Guard("work", backoff=every(4.0), deadline=3.0, clock=clock))
        assert clock.time == 0.0
        assert "deadline" in caught.value.__notes__[0]

    @pytest.mark.parametrize("overshoot", [0.25, 0.5])
    def test_an_attempt_does_not_start_when_the_wait_took_too_long(
        self, play: Play, overshoot: float
    ) -> None:
        """Sleeps end late on a busy machine; the deadline still holds."""
        clock = VirtualClock(overshoot)
        clock.time = 4.0
        events: list[CallEvent] = []
        error = RetryableError("the first")
        script = Script(error, "too late", clock=clock)
        guard = Guard("work", backoff=every(1.0), deadline=1.25, clock=clock, hooks=[events.append])
        with pytest.raises(RetryableError) as caught:
            play(script, guard)
        assert script.times == [4.0]
        assert caught.value is error
        assert "after 1 attempt: the next attempt would start after the deadline" in error.__notes__[0]
        last = events[-1]
        assert isinstance(last, AttemptFailed)
        assert (last.reason, last.wait, last.seconds) == (Reason.DEADLINE, None, 1.0 + overshoot)

    def test_a_wait_that_ended_late_but_in_time_is_followed_by_an_attempt(self, play: Play) -> None:
        clock = VirtualClock(overshoot=0.125)
        script = Script(RetryableError(), "in time", clock=clock)
        guard = Guard("work", backoff=every(1.0), deadline=1.25, clock=clock)
        assert play(script, guard) == "in time"
        assert script.attempts[1].remaining() == 0.125

    def test_without_one_only_the_attempts_are_limited(self, clock: VirtualClock, play: Play) -> None:
        script = failing(clock, 1000.0)
        with pytest.raises(RetryableError):
            play(script, Guard("work", max_attempts=5, backoff=every(50.0), clock=clock))
        assert script.executions == 5

    @pytest.mark.parametrize("play_late", [play_async, play_block, play_async_block])
    def test_a_success_of_a_block_or_of_async_code_that_never_waits_is_one_however_late(
        self, clock: VirtualClock, play_late: Play
    ) -> None:
        script = Script("late", clock=clock, takes=(100.0,))
        assert play_late(script, Guard("work", timeout=1.0, deadline=2.0, clock=clock)) == "late"

    def test_it_is_that_of_one_call_not_of_the_guard(self, clock: VirtualClock) -> None:
        guard = Guard("work", deadline=5.0, backoff=every(1.0), clock=clock)
        for _ in range(10):
            assert guard.call(Script(RetryableError(), "done")) == "done"


class TestRemaining:
    def test_is_the_smaller_of_timeout_and_deadline(self, clock: VirtualClock, play: Play) -> None:
        left: list[float] = []

        class Noting(Script):
            def __call__(self, attempt: Attempt) -> object:
                left.append(attempt.remaining())
                return super().__call__(attempt)

        script = Noting(*[RetryableError() for _ in range(4)], "done", clock=clock, takes=(4.0,) * 5)
        guard = Guard("work", max_attempts=5, timeout=10.0, deadline=30.0, backoff=every(2.0), clock=clock)
        assert play(script, guard) == "done"
        assert script.times == [0.0, 6.0, 12.0, 18.0, 24.0]
        assert left == [10.0, 10.0, 10.0, 10.0, 6.0]

    def test_shrinks_and_never_goes_below_zero(self, clock: VirtualClock) -> None:
        seen: list[tuple[float, float]] = []

        def work(attempt: Attempt) -> None:
            for step in (0.0, 1.5, 1.5, 100.0):
                clock.time += step
                seen.append((attempt.remaining(), attempt.elapsed()))

        clock.time = 7.0
        with pytest.raises(AttemptTimeoutError):
            Guard("work", timeout=3.0, max_attempts=1, clock=clock).call(work)
        assert seen == [(3.0, 0.0), (1.5, 1.5), (0.0, 3.0), (0.0, 103.0)]

    def test_check_raises_from_the_last_moment_on(self, clock: VirtualClock) -> None:
        def work(attempt: Attempt) -> None:
            attempt.check()
            clock.time += 2.999
            attempt.check()
            clock.time += 0.001
            with pytest.raises(AttemptTimeoutError, match=r"attempt 1 of 'sum up'.* 3 s"):
                attempt.check()
            clock.time -= 0.001

        Guard("sum up", timeout=3.0, clock=clock).call(work)

    def test_a_checked_timeout_is_retried_as_one(self, clock: VirtualClock, play: Play) -> None:
        class Slow(Script):
            def __call__(self, attempt: Attempt) -> object:
                result = super().__call__(attempt)
                attempt.check()
                return result

        script = Slow("slow", "quick", clock=clock, takes=(5.0, 0.5))
        assert play(script, Guard("work", timeout=1.0, clock=clock)) == "quick"
        assert [str(failure.category) for failure in script.attempts[1].failures] == ["timeout"]

    def test_the_error_is_a_timeout_error(self, clock: VirtualClock) -> None:
        def work(attempt: Attempt) -> None:
            clock.time += 5.0
            attempt.check()

        with pytest.raises(TimeoutError) as caught:
            Guard("work", max_attempts=2, timeout=1.0, clock=clock).call(work)
        assert isinstance(caught.value, AttemptTimeoutError)


class TestNested:
    """A guarded call inside another never outlives the outer attempt."""

    def test_the_attempt_around_limits_the_inner_one(self, clock: VirtualClock, play: Play) -> None:
        inner = Guard("inner", timeout=50.0, deadline=60.0, clock=clock)

        def work(attempt: Attempt) -> None:
            clock.time += 1.0
            nested = inner.call(lambda attempt: attempt)
            assert nested.expires == attempt.expires == 5.0
            assert nested.deadline == 5.0

        Guard("outer", timeout=5.0, clock=clock).call(work)

    def test_the_inner_one_may_be_shorter(self, clock: VirtualClock) -> None:
        def work(attempt: Attempt) -> None:
            nested = Guard("inner", timeout=1.0, deadline=2.0, clock=clock).call(lambda attempt: attempt)
            assert (nested.expires, nested.deadline) == (1.0, 2.0)

        Guard("outer", timeout=5.0, clock=clock).call(work)

    def test_inner_waits_end_with_the_attempt_around(self, clock: VirtualClock, play: Play) -> None:
        inner_script = failing(clock, 0.5)
        inner = Guard("inner", max_attempts=50, backoff=every(1.0), clock=clock)

        def work(attempt: Attempt) -> None:
            play(inner_script, inner)

        with pytest.raises(RetryableError):
            Guard("outer", max_attempts=1, timeout=4.0, clock=clock).call(work)
        assert inner_script.times == [0.0, 1.5, 3.0]
        assert clock.time <= 4.0

    def test_three_deep(self, clock: VirtualClock) -> None:
        def innermost(attempt: Attempt) -> float:
            return attempt.remaining()

        def middle(attempt: Attempt) -> float:
            clock.time += 1.0
            return Guard("innermost", timeout=9.0, clock=clock).call(innermost)

        def outer(attempt: Attempt) -> float:
            clock.time += 1.0
            return Guard("middle", timeout=3.0, clock=clock).call(middle)

        assert Guard("outer", timeout=9.0, clock=clock).call(outer) == 2.0

    def test_an_inner_call_does_not_start_when_the_time_around_it_is_over(
        self, clock: VirtualClock, play: Play
    ) -> None:
        script = Script("never")

        def work(attempt: Attempt) -> None:
            clock.time += 7.0
            play(script, Guard("inner", clock=clock))

        with pytest.raises(AttemptTimeoutError, match="'outer'"):
            Guard("outer", max_attempts=1, timeout=5.0, clock=clock).call(work)
        assert script.executions == 0

    def test_an_inner_guard_may_have_another_clock(self) -> None:
        """The outer guard passes the remaining time on, not a reading of its own clock."""
        outer_clock, inner_clock = VirtualClock(), VirtualClock()
        inner_clock.time = 1_000_000.0

        def work(attempt: Attempt) -> float:
            outer_clock.time += 1.0
            return Guard("inner", timeout=50.0, clock=inner_clock).call(lambda attempt: attempt.remaining())

        assert Guard("outer", timeout=5.0, clock=outer_clock).call(work) == pytest.approx(4.0)

    def test_afterwards_the_limit_is_gone(self, clock: VirtualClock) -> None:
        Guard("outer", timeout=1.0, clock=clock).call(lambda attempt: None)
        clock.time += 100.0
        assert current_attempt() is None
        assert Guard("later", timeout=5.0, clock=clock).call(lambda attempt: attempt.remaining()) == 5.0

    def test_each_outer_attempt_gives_a_new_limit(self, clock: VirtualClock, play: Play) -> None:
        left: list[float] = []

        def work(attempt: Attempt) -> None:
            inner = Guard("inner", timeout=50.0, clock=clock)
            left.append(inner.call(lambda attempt: attempt.remaining()))
            clock.time += 3.0
            if attempt.number < 3:
                raise RetryableError

        Guard("outer", timeout=5.0, backoff=Backoff(Immediate()), clock=clock).call(work)
        assert left == [5.0, 5.0, 5.0]

    def test_the_inner_final_error_is_judged_again_outside(self, clock: VirtualClock) -> None:
        """Inner attempts times outer attempts: each layer counts its own."""
        script = failing(clock, 0.0)
        inner = Guard("inner", max_attempts=2, clock=clock)
        with pytest.raises(RetryableError) as caught:
            Guard("outer", max_attempts=3, clock=clock).call(lambda attempt: inner.call(script))
        assert script.executions == 6
        assert ["inner" in note for note in caught.value.__notes__] == [True, False]


class TestHints:
    def test_a_hint_beyond_the_deadline_is_not_waited_for(self, clock: VirtualClock, play: Play) -> None:
        error = RateLimitedError("slow down", retry_after=30.0)
        with pytest.raises(RateLimitedError) as caught:
            play(Script(error), Guard("work", deadline=20.0, clock=clock))
        assert caught.value is error
        assert clock.time == 0.0
        assert "deadline" in caught.value.__notes__[0]

    def test_a_hint_within_it_is(self, clock: VirtualClock, play: Play) -> None:
        script = Script(RateLimitedError(retry_after=19.0), "done", clock=clock)
        assert play(script, Guard("work", deadline=20.0, clock=clock)) == "done"
        assert script.attempts[1].remaining() == 1.0

    def test_longer_than_both_limits_is_deferred(self, clock: VirtualClock, play: Play) -> None:
        error = RateLimitedError("slow down", retry_after=300.0)
        with pytest.raises(DeferredError) as caught:
            play(Script(error), Guard("work", deadline=20.0, clock=clock))
        assert caught.value.__cause__ is error


class TestTimedelta:
    """A timedelta equals its seconds, for every way to guard a call."""

    @pytest.mark.parametrize(
        ("options", "left"),
        [
            ({"timeout": timedelta(seconds=4)}, 4.0),
            ({"deadline": timedelta(seconds=3)}, 3.0),
            ({"timeout": timedelta(minutes=1), "deadline": timedelta(seconds=30)}, 30.0),
        ],
    )
    def test_limits_an_attempt_and_a_call(
        self, clock: VirtualClock, options: dict[str, Any], left: float
    ) -> None:
        def remaining(attempt: Attempt) -> float:
            return attempt.remaining()

        @retry("decorated", clock=clock, **options)
        def decorated() -> float:
            attempt = current_attempt()
            assert attempt is not None
            return attempt.remaining()

        for attempt in attempts("block", clock=clock, **options):
            with attempt:
                assert attempt.remaining() == left
        assert decorated() == left
        assert call("call", remaining, clock=clock, **options) == left
        assert Guard("guard", clock=clock, **options).call(remaining) == left

    def test_the_longest_wait(self, clock: VirtualClock) -> None:
        def limited(_: Attempt) -> None:
            raise RateLimitedError(retry_after=timedelta(minutes=2))

        with pytest.raises(DeferredError, match=r"longest_wait \(119 s\)") as caught:
            call("limited", limited, longest_wait=timedelta(seconds=119), clock=clock)
        assert caught.value.retry_after == 120.0
