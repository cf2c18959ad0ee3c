"""Rate limits: the wait is exactly the hint and is not counted; without a hint, calls back off (D4)."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from tests.calls.script import Play, Script

from redrive import Backoff, Guard, RateLimitedError, RetryPolicy
from redrive.calls import Dependency
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import DeferredError, HttpStatusError, RetryableError
from redrive.model.decision import Reason
from redrive.policy import BudgetPolicy, Linear
from redrive.testing import EPOCH, VirtualClock

EVERY_SECOND = Backoff(Linear(1.0, 0.0))


def limited(*hints: float | None) -> list[Exception]:
    return [RateLimitedError("slow down", retry_after=hint) for hint in hints]


class TestHint:
    @pytest.mark.parametrize("hint", [0.0, 0.001, 1.0, 7.25, 60.0])
    def test_is_waited_for_exactly(self, clock: VirtualClock, play: Play, hint: float) -> None:
        script = Script(*limited(hint), "done", clock=clock)
        assert play(script, Guard("work", clock=clock, random=lambda: 0.123)) == "done"
        assert script.gaps == [hint]

    def test_is_not_counted(self, clock: VirtualClock, play: Play) -> None:
        script = Script(
            *limited(1.0, 2.0),
            RetryableError(),
            *limited(3.0),
            RetryableError(),
            RetryableError(),
            clock=clock,
        )
        with pytest.raises(RetryableError):
            play(script, Guard("work", max_attempts=3, backoff=EVERY_SECOND, clock=clock))
        assert script.executions == 6
        assert clock.waits == [1.0, 2.0, 1.0, 3.0, 1.0]

    def test_does_not_grow_the_backoff(self, clock: VirtualClock, play: Play) -> None:
        backoff = Backoff(Linear(1.0, 1.0))
        script = Script(*limited(9.0, 9.0, 9.0), RetryableError(), RetryableError(), "done", clock=clock)
        assert play(script, Guard("work", backoff=backoff, clock=clock)) == "done"
        assert clock.waits == [9.0, 9.0, 9.0, 1.0, 2.0]

    def test_numbers_of_attempts_continue(self, clock: VirtualClock, play: Play) -> None:
        script = Script(*limited(1.0, 1.0), "done")
        play(script, Guard("work", clock=clock))
        assert [attempt.number for attempt in script.attempts] == [1, 2, 3]

    def test_at_most_ten_times_by_default(self, clock: VirtualClock, play: Play) -> None:
        script = Script(*limited(*[1.0] * 50), clock=clock)
        with pytest.raises(RateLimitedError) as caught:
            play(script, Guard("work", clock=clock))
        assert script.executions == 11
        assert "rate limited too often" in caught.value.__notes__[0]

    @pytest.mark.parametrize("most", [0, 1, 4])
    def test_at_most_as_often_as_the_policy_says(self, clock: VirtualClock, play: Play, most: int) -> None:
        policy = RetryPolicy(max_attempts=3, backoff=EVERY_SECOND, max_rate_limit_waits=most)
        script = Script(*limited(*[1.0] * 50), clock=clock)
        with pytest.raises(RateLimitedError):
            play(script, Guard("work", policy=policy, clock=clock))
        assert script.executions == most + 1

    def test_pays_for_the_retry_all_the_same(self, clock: VirtualClock, play: Play) -> None:
        """A limited server is busy: retries cost budget there, too."""
        dependency = Dependency("shop", budget=BudgetPolicy(capacity=10.0, retry_cost=5.0), clock=clock)
        script = Script(*limited(1.0, 1.0, 1.0))
        with pytest.raises(RateLimitedError) as caught:
            play(script, Guard("work", dependency=dependency, clock=clock))
        assert script.executions == 3
        assert "budget" in caught.value.__notes__[0]

    @pytest.mark.parametrize("header", ["Retry-After", "retry-after"])
    def test_in_seconds_in_a_header(self, clock: VirtualClock, play: Play, header: str) -> None:
        error = HttpStatusError("answered 429", status=429, headers={header: "12"})
        script = Script(error, "done", clock=clock)
        play(script, Guard("work", clock=clock))
        assert script.gaps == [12.0]

    def test_as_a_date_in_a_header(self, clock: VirtualClock, play: Play) -> None:
        headers = {"retry-after": formatdate(EPOCH + 25, usegmt=True)}
        script = Script(HttpStatusError("answered 429", status=429, headers=headers), "done", clock=clock)
        play(script, Guard("work", clock=clock))
        assert script.gaps == [25.0]

    @pytest.mark.parametrize("nonsense", ["soon", "", "-1", "NaN", "inf", "1e3", "١"])
    def test_nonsense_is_no_hint(self, clock: VirtualClock, play: Play, nonsense: str) -> None:
        error = HttpStatusError("answered 429", status=429, headers={"retry-after": nonsense})
        script = Script(error, "done", clock=clock)
        play(script, Guard("work", backoff=EVERY_SECOND, clock=clock))
        assert script.gaps == [1.0]

    def test_is_reported(self, clock: VirtualClock, play: Play) -> None:
        events: list[CallEvent] = []
        play(Script(*limited(2.0), "done"), Guard("work", clock=clock, hooks=[events.append]))
        failed = events[0]
        assert isinstance(failed, AttemptFailed)
        assert failed.reason is Reason.RATE_LIMIT_HINT
        assert failed.wait == 2.0
        assert failed.explanation.hint == 2.0


class TestWithoutHint:
    def test_backs_off_and_is_counted(self, clock: VirtualClock, play: Play) -> None:
        script = Script(*limited(None, None, None), clock=clock)
        with pytest.raises(RateLimitedError):
            play(script, Guard("work", clock=clock, random=lambda: 1.0))
        assert script.executions == 3
        assert clock.waits == [0.25, 0.5]


class TestDeferred:
    def test_a_wait_longer_than_the_limit_is_not_sat_through(self, clock: VirtualClock, play: Play) -> None:
        error = RateLimitedError("slow down", retry_after=61.0)
        with pytest.raises(DeferredError, match="'send mail'") as caught:
            play(Script(error), Guard("send mail", clock=clock))
        assert caught.value.retry_after == 61.0
        assert caught.value.__cause__ is error
        assert clock.waits == []

    def test_the_cause_has_the_notes(self, clock: VirtualClock, play: Play) -> None:
        script = Script(RetryableError(), *limited(100.0))
        with pytest.raises(DeferredError) as caught:
            play(script, Guard("work", clock=clock))
        assert caught.value.__cause__ is not None
        assert "after 2 attempts" in caught.value.__cause__.__notes__[0]

    @pytest.mark.parametrize(
        ("limit", "hint", "deferred"), [(5.0, 5.0, False), (5.0, 5.001, True), (0.0, 0.0, False)]
    )
    def test_the_limit_itself_is_waited_for(
        self, clock: VirtualClock, play: Play, limit: float, hint: float, deferred: bool
    ) -> None:
        script = Script(*limited(hint), "done", clock=clock)
        guard = Guard("work", longest_wait=limit, clock=clock)
        if deferred:
            with pytest.raises(DeferredError):
                play(script, guard)
        else:
            assert play(script, guard) == "done"

    def test_also_for_a_backoff(self, clock: VirtualClock, play: Play) -> None:
        error = RetryableError("busy")
        guard = Guard("work", backoff=Backoff(Linear(90.0, 0.0)), clock=clock)
        with pytest.raises(DeferredError) as caught:
            play(Script(error), guard)
        assert caught.value.retry_after == 90.0
        assert caught.value.__cause__ is error

    def test_costs_no_budget(self, clock: VirtualClock, play: Play) -> None:
        dependency = Dependency("shop", clock=clock)
        with pytest.raises(DeferredError):
            play(Script(*limited(100.0)), Guard("work", dependency=dependency, clock=clock))
        assert dependency.retry_tokens == 500.0

    def test_not_when_the_attempts_are_used_up(self, clock: VirtualClock, play: Play) -> None:
        guard = Guard("work", max_attempts=1, backoff=Backoff(Linear(90.0, 0.0)), clock=clock)
        with pytest.raises(RetryableError):
            play(Script(RetryableError()), guard)

    def test_is_reported_as_the_end_of_the_call(self, clock: VirtualClock, play: Play) -> None:
        events: list[CallEvent] = []
        with pytest.raises(DeferredError):
            play(Script(*limited(100.0)), Guard("work", clock=clock, hooks=[events.append]))
        (event,) = events
        assert isinstance(event, AttemptFailed)
        assert event.reason is Reason.TOO_LONG
        assert event.wait is None

    def test_around_another_guard_it_is_not_retried(self, clock: VirtualClock) -> None:
        script = Script(*limited(100.0))
        inner = Guard("inner", clock=clock)
        with pytest.raises(DeferredError):
            Guard("outer", timeout=1000.0, clock=clock).call(lambda attempt: inner.call(script))
        assert script.executions == 1
