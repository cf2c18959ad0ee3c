"""The number of executions and waits, compared with numbers computed by hand (G2, "Counting")."""

from __future__ import annotations

import pytest
from tests.calls.script import Play, Script

from redrive import Backoff, Category, Guard, Rule
from redrive.calls import current_attempt
from redrive.errors import FinalError, RetryableError
from redrive.policy import (
    CALL,
    GATEWAY,
    RUN,
    STEP,
    Classifier,
    Custom,
    Decorrelated,
    Equal,
    ErrorClass,
    Exponential,
    Full,
    Linear,
    Never,
    RetryPolicy,
)
from redrive.testing import VirtualClock


def always_failing(clock: VirtualClock, times: int = 20) -> Script:
    return Script(*(RetryableError(str(number)) for number in range(times)), clock=clock)


class TestExecutions:
    @pytest.mark.parametrize("most", [1, 2, 3, 7])
    def test_max_attempts_is_the_number_of_executions_in_all(
        self, clock: VirtualClock, play: Play, most: int
    ) -> None:
        script = always_failing(clock)
        with pytest.raises(RetryableError) as caught:
            play(script, Guard("work", max_attempts=most, clock=clock))
        assert script.executions == most
        assert [attempt.number for attempt in script.attempts] == list(range(1, most + 1))
        assert str(caught.value) == str(most - 1)

    @pytest.mark.parametrize("failing", [0, 1, 2])
    def test_success_ends_it(self, clock: VirtualClock, play: Play, failing: int) -> None:
        script = Script(*[RetryableError() for _ in range(failing)], "done", clock=clock)
        assert play(script, Guard("work", clock=clock)) == "done"
        assert script.executions == failing + 1
        assert len(clock.waits) == failing

    @pytest.mark.parametrize(
        "result", [None, False, 0, "", [], NotImplemented, ValueError("a value, not raised")]
    )
    def test_any_result_is_a_success(self, clock: VirtualClock, result: object) -> None:
        guard = Guard("work", clock=clock)
        assert guard.call(lambda attempt: result) is result

    @pytest.mark.parametrize(
        "error", [FinalError("no"), ValueError("bad"), KeyError("unknown to everybody"), AssertionError()]
    )
    def test_final_and_unknown_errors_are_not_retried(
        self, clock: VirtualClock, play: Play, error: Exception
    ) -> None:
        script = Script(error, clock=clock)
        with pytest.raises(type(error)):
            play(script, Guard("work", clock=clock))
        assert script.executions == 1
        assert clock.waits == []

    def test_a_policy_that_never_retries(self, clock: VirtualClock, play: Play) -> None:
        script = always_failing(clock)
        with pytest.raises(RetryableError):
            play(script, Guard("work", max_attempts=5, backoff=Backoff(Never()), clock=clock))
        assert script.executions == 1

    def test_a_curve_that_ends(self, clock: VirtualClock, play: Play) -> None:
        script = always_failing(clock)
        backoff = Backoff(Custom(lambda failures: 1.0 if failures < 3 else None))
        with pytest.raises(RetryableError):
            play(script, Guard("work", max_attempts=9, backoff=backoff, clock=clock))
        assert script.executions == 3
        assert clock.waits == [1.0, 1.0]

    def test_a_custom_classifier_decides(self, clock: VirtualClock, play: Play) -> None:
        classifier = Classifier([Rule.for_type(KeyError, Category.NETWORK)])
        script = Script(KeyError("a"), KeyError("b"), "done", clock=clock)
        assert play(script, Guard("work", classifier=classifier, clock=clock)) == "done"
        final = Classifier([Rule.for_type(ConnectionError, Category.VALIDATION, ErrorClass.FINAL)])
        script = Script(ConnectionError(), clock=clock)
        with pytest.raises(ConnectionError):
            play(script, Guard("work", classifier=final, clock=clock))
        assert script.executions == 1


class TestWaits:
    @pytest.mark.parametrize(
        ("draw", "waits"), [(0.0, [0.125, 0.25]), (0.5, [0.1875, 0.375]), (1.0, [0.25, 0.5])]
    )
    def test_the_default_waits(
        self, clock: VirtualClock, play: Play, draw: float, waits: list[float]
    ) -> None:
        """G2: base 250 ms, doubled; equal jitter draws between half and all of it."""
        script = always_failing(clock)
        with pytest.raises(RetryableError):
            play(script, Guard("work", clock=clock, random=lambda: draw))
        assert clock.waits == waits
        assert script.gaps == waits

    def test_the_default_cap_is_5_seconds(self, clock: VirtualClock, play: Play) -> None:
        script = always_failing(clock)
        with pytest.raises(RetryableError):
            play(script, Guard("work", max_attempts=9, clock=clock, random=lambda: 1.0))
        assert clock.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]

    @pytest.mark.parametrize(
        ("policy", "draw", "waits"),
        [
            (STEP, 0.5, [2.0, 4.0, 8.0]),
            (STEP, 0.0, [1.5, 3.0, 6.0]),
            (STEP, 1.0, [2.5, 5.0, 10.0]),
            (RUN, 0.7, [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0]),
            (GATEWAY, 0.0, [5.0, 10.0]),
            (GATEWAY, 1.0, [10.0, 15.0]),
            (GATEWAY, 0.25, [6.25, 11.25]),
        ],
    )
    def test_the_other_policies(
        self, clock: VirtualClock, play: Play, policy: RetryPolicy, draw: float, waits: list[float]
    ) -> None:
        script = always_failing(clock)
        guard = Guard("work", policy=policy, longest_wait=3600.0, clock=clock, random=lambda: draw)
        with pytest.raises(RetryableError):
            play(script, guard)
        assert clock.waits == waits
        assert script.executions == policy.max_attempts

    def test_every_wait_has_its_own_draw(self, clock: VirtualClock, play: Play) -> None:
        draws = iter([0.0, 1.0, 0.5, 0.9])
        backoff = Backoff(Linear(4.0, 2.0), jitter=Full())
        script = always_failing(clock)
        guard = Guard("work", max_attempts=4, backoff=backoff, clock=clock, random=lambda: next(draws))
        with pytest.raises(RetryableError):
            play(script, guard)
        assert script.gaps == [0.0, 6.0, 4.0]

    def test_decorrelated_jitter_remembers_the_wait_before(self, clock: VirtualClock, play: Play) -> None:
        """1 + (3·1 - 1)·½ = 2, then 1 + (3·2 - 1)·½ = 3.5, then 1 + (3·3.5 - 1)·½ = 5.75."""
        backoff = Backoff(Exponential(1.0), cap=100.0, jitter=Decorrelated())
        guard = Guard("work", max_attempts=4, backoff=backoff, clock=clock, random=lambda: 0.5)
        with pytest.raises(RetryableError):
            play(always_failing(clock), guard)
        assert clock.waits == [2.0, 3.5, 5.75]

    def test_a_server_in_trouble_may_ask_for_more_time(self, clock: VirtualClock, play: Play) -> None:
        script = Script(
            RetryableError(retry_after=4.0), RetryableError(retry_after=0.001), "done", clock=clock
        )
        assert play(script, Guard("work", clock=clock, random=lambda: 1.0)) == "done"
        assert clock.waits == [4.0, 0.5]

    def test_a_category_can_have_its_own_waits(self, clock: VirtualClock, play: Play) -> None:
        policy = RetryPolicy(
            max_attempts=3,
            backoff=Backoff(Linear(1.0, 0.0)),
            backoff_by_category={Category.NETWORK: Backoff(Linear(7.0, 0.0))},
        )
        script = Script(ConnectionError(), TimeoutError(), "done", clock=clock)
        assert play(script, Guard("work", policy=policy, clock=clock)) == "done"
        assert clock.waits == [7.0, 1.0]

    def test_success_and_zero_delays_do_not_sleep(self, clock: VirtualClock, play: Play) -> None:
        play(Script("done"), Guard("work", clock=clock))
        assert clock.waits == []
        at_once = Backoff(Linear(0.0, 0.0))
        play(Script(RetryableError(), "done"), Guard("work", backoff=at_once, clock=clock))
        assert clock.waits == []

    def test_the_time_of_the_attempts_is_not_part_of_the_wait(self, clock: VirtualClock, play: Play) -> None:
        script = Script(RetryableError(), RetryableError(), "done", clock=clock, takes=(3.0, 2.0, 1.0))
        play(script, Guard("work", clock=clock, random=lambda: 1.0))
        assert script.times == [0.0, 3.25, 5.75]

    def test_no_attempt_is_current_while_waiting(self) -> None:
        inside: list[object] = []

        class Watching(VirtualClock):
            def pause(self, seconds: float) -> None:
                inside.append(current_attempt())
                super().pause(seconds)

        Guard("work", clock=Watching()).call(Script(RetryableError(), "done"))
        assert inside == [None]

    def test_jitter_is_on_by_default(self) -> None:
        assert isinstance(CALL.backoff.jitter, Equal)
        seen = set()
        for _ in range(20):
            clock = VirtualClock()
            Guard("work", clock=clock).call(Script(RetryableError(), "done"))
            seen.update(clock.waits)
        assert len(seen) > 10
        assert all(0.125 <= wait <= 0.25 for wait in seen)
