"""Backoff: the exact formulas of the requirements, and their bounds for any input (W3, G2, D3, P2, M1)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidValueError
from redrive.model.decision import Explanation, Reason, Wait
from redrive.policy import (
    CALL,
    GATEWAY,
    REDRIVE_POLICIES,
    RUN,
    STEP,
    Additive,
    Backoff,
    Custom,
    Decorrelated,
    Equal,
    Exponential,
    Full,
    Immediate,
    Linear,
    Never,
    NoJitter,
    Proportional,
)
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.curve import Curve
from redrive.policy.jitter import Jitter
from redrive.words.decision import computation

draws = st.floats(0.0, 1.0)
failures = st.integers(1, 10**400)
seconds = st.floats(0.0, MAX_DELAY_SECONDS)

jitters: st.SearchStrategy[Jitter] = st.one_of(
    st.just(NoJitter()),
    st.builds(Proportional, st.floats(0.0, 1.0)),
    st.builds(Additive, seconds),
    st.just(Full()),
    st.just(Equal()),
    st.builds(Decorrelated, st.floats(1.0, 1000.0)),
)
curves: st.SearchStrategy[Curve] = st.one_of(
    st.builds(Exponential, seconds, st.floats(1.0, 1000.0)),
    st.builds(Linear, seconds, seconds),
    st.just(Immediate()),
    st.builds(lambda answer: Custom(lambda _: answer), st.floats() | st.none()),
)


def waits(backoff: Backoff, count: int, draw: float) -> list[float]:
    found = [backoff.wait(number, draw=draw) for number in range(1, count + 1)]
    return [each.seconds for each in found if each is not None]


class TestPresets:
    """Computed by hand from the formulas; draws of 0, ½ and 1 give the lower bound, middle and upper."""

    def test_step_w3(self) -> None:
        assert waits(STEP.backoff, 9, 0.5) == [2, 4, 8, 16, 32, 64, 120, 120, 120]
        assert waits(STEP.backoff, 8, 0.0) == [1.5, 3, 6, 12, 24, 48, 90, 90]
        assert waits(STEP.backoff, 8, 1.0) == [2.5, 5, 10, 20, 40, 80, 150, 150]
        assert STEP.max_retries == 3

    def test_call_g2(self) -> None:
        assert waits(CALL.backoff, 7, 1.0) == [0.25, 0.5, 1, 2, 4, 5, 5]
        assert CALL.max_attempts == 3

    def test_run_d3(self) -> None:
        assert waits(RUN.backoff, 8, 0.7) == [60, 120, 240, 480, 960, 1920, 3600, 3600]
        assert RUN.max_attempts == 8

    def test_gateway_p2(self) -> None:
        assert waits(GATEWAY.backoff, 2, 0.0) == [5, 10]
        assert waits(GATEWAY.backoff, 2, 0.3) == [6.5, 11.5]
        assert waits(GATEWAY.backoff, 2, 1.0) == [10, 15]
        assert GATEWAY.max_attempts == 3

    @pytest.mark.parametrize(
        ("name", "minutes"),
        [
            ("never", []),
            ("linear", [5, 10, 15, 20, 25, 30, 35]),
            ("exponential", [1, 2, 4, 8, 16, 32, 60]),
            ("immediate", [0, 0, 0, 0, 0, 0, 0]),
        ],
    )
    def test_redrive_m1(self, name: str, minutes: list[float]) -> None:
        found = waits(REDRIVE_POLICIES[name].backoff, 7, 0.5)
        assert [each / 60 for each in found] == minutes


class TestJitter:
    @pytest.mark.parametrize(
        ("jitter", "low", "high"),
        [
            (NoJitter(), 8, 8),
            (Proportional(0.25), 6, 10),
            (Additive(5.0), 8, 13),
            (Full(), 0, 8),
            (Equal(), 4, 8),
        ],
    )
    def test_interval(self, jitter: Jitter, low: float, high: float) -> None:
        wait = Backoff(Exponential(2.0), jitter=jitter).wait(3, draw=0.5)
        assert wait is not None
        assert (wait.low, wait.high, wait.seconds) == (low, high, (low + high) / 2)

    def test_decorrelated_grows_from_the_wait_before(self) -> None:
        backoff = Backoff(Exponential(1.0), cap=20.0, jitter=Decorrelated(3.0))
        second = backoff.wait(2, draw=1.0, previous=2.0)
        capped = backoff.wait(3, draw=1.0, previous=19.0)
        lowest = backoff.wait(9, draw=0.0, previous=19.0)
        assert second is not None
        assert capped is not None
        assert lowest is not None
        assert (second.seconds, capped.seconds, lowest.seconds) == (6.0, 20.0, 1.0)

    @given(draw=draws, other=draws, jitter=jitters, number=st.integers(1, 50))
    def test_a_larger_draw_never_waits_less(
        self, draw: float, other: float, jitter: Jitter, number: int
    ) -> None:
        backoff = Backoff(Exponential(2.0), cap=1000.0, jitter=jitter)
        low, high = (backoff.wait(number, draw=each) for each in sorted((draw, other)))
        assert low is not None
        assert high is not None
        assert low.seconds <= high.seconds


class TestBounds:
    @given(
        curve=curves, cap=seconds, jitter=jitters, number=failures, draw=draws, previous=st.none() | seconds
    )
    def test_no_input_leaves_the_documented_bounds(
        self, curve: Curve, cap: float, jitter: Jitter, number: int, draw: float, previous: float | None
    ) -> None:
        backoff = Backoff(curve, cap=cap, jitter=jitter)
        wait = backoff.wait(number, draw=draw, previous=previous)
        if wait is not None:
            assert 0.0 <= wait.low <= wait.seconds <= wait.high <= backoff.longest
            assert math.isfinite(wait.seconds)

    def test_longest_is_the_documented_bound(self) -> None:
        assert STEP.backoff.longest == 150.0
        assert CALL.backoff.longest == 5.0
        assert RUN.backoff.longest == 3600.0

    @given(number=failures)
    def test_the_plan_never_shrinks(self, number: int) -> None:
        backoff = Backoff(Exponential(0.1, 1.7), cap=500.0)
        before, after = backoff.planned(number), backoff.planned(number + 1)
        assert before is not None
        assert after is not None
        assert before <= after <= 500.0

    def test_never_has_no_wait(self) -> None:
        assert Backoff(Never()).wait(1, draw=0.5) is None

    @pytest.mark.parametrize("number", [0, -1])
    def test_counting_starts_at_one(self, number: int) -> None:
        with pytest.raises(InvalidValueError, match="at least 1"):
            Backoff(Immediate()).wait(number, draw=0.5)

    @pytest.mark.parametrize("draw", [-0.1, 1.1, math.nan, math.inf])
    def test_a_draw_is_from_0_to_1(self, draw: float) -> None:
        with pytest.raises(InvalidValueError, match="from 0 to 1"):
            Backoff(Immediate()).wait(1, draw=draw)


class TestCustom:
    def test_a_function_of_your_own(self) -> None:
        assert waits(Backoff(Custom(lambda number: number * 7.0)), 3, 0.5) == [7, 14, 21]

    def test_none_ends_the_retries(self) -> None:
        backoff = Backoff(Custom(lambda number: 1.0 if number < 3 else None))
        assert waits(backoff, 5, 0.5) == [1, 1]

    @pytest.mark.parametrize(("answer", "expected"), [(-5.0, 0.0), (math.nan, 9.0), (math.inf, 9.0)])
    def test_nonsense_cannot_strand_work(self, answer: float, expected: float) -> None:
        assert waits(Backoff(Custom(lambda _: answer), cap=9.0), 1, 0.5) == [expected]

    def test_an_exception_counts_as_an_hour_or_the_cap(self) -> None:
        def broken(_: int) -> float:
            raise ZeroDivisionError

        assert waits(Backoff(Custom(broken), cap=9.0), 1, 0.5) == [9.0]
        assert waits(Backoff(Custom(broken)), 1, 0.5) == [3600.0]
        assert waits(Backoff(Custom(lambda _: math.nan)), 1, 0.5) == [3600.0]

    def test_zero_times_any_factor_is_zero(self) -> None:
        assert waits(Backoff(Exponential(0.0, 1000.0), cap=9.0), 1, 0.5) == [0.0]
        assert Backoff(Exponential(0.0, 1000.0), cap=9.0).planned(10**6) == 0.0


class TestRefusals:
    @pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "2", None, 10**12])
    def test_a_wrong_number_is_refused_with_its_bounds(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"base must be a number of seconds from 0 to"):
            Exponential(value)  # type: ignore[arg-type]

    @pytest.mark.parametrize("ratio", [-0.01, 1.01])
    def test_ratio(self, ratio: float) -> None:
        with pytest.raises(InvalidValueError, match="ratio must be a number from 0 to 1"):
            Proportional(ratio)

    def test_factor_and_cap(self) -> None:
        with pytest.raises(InvalidValueError, match="factor"):
            Exponential(1.0, 0.5)
        with pytest.raises(InvalidValueError, match="cap"):
            Backoff(Immediate(), cap=-1.0)


def test_a_wait_shows_how_it_was_computed() -> None:
    wait = STEP.backoff.wait(3, draw=0.75)
    assert computed(wait) == "wait min(120, 2 · 2^(3 - 1)) = 8 s, jitter ±25% [6 … 10], draw 0.7500 → 9 s"
    assert computed(RUN.backoff.wait(2, draw=0.1)) == "wait min(3600, 60 · 2^(2 - 1)) = 120 s, no jitter"


def computed(wait: Wait | None) -> str:
    return computation(Explanation(Reason.BACKOFF, wait=wait).facts())
