"""After a recovery, held work is released in growing steps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.policy.breaker_policy import MAX_RELEASED, Ramp

RAMPS = st.builds(Ramp, st.integers(1, 1_000_000), st.floats(1.0, 1000.0), st.floats(0.001, 1e6)) | st.builds(
    Ramp, st.integers(1, 50), st.sampled_from([1.0, math.nextafter(1.0, 2.0), 1.000001, 1.1, 1.5])
)


@pytest.mark.parametrize(
    ("ramp", "totals"),
    [
        (Ramp(), [10, 30, 70, 150, 310]),
        (Ramp(10, 1.1), [10, 21, 33, 46]),
        (Ramp(10, 1.5), [10, 25, 47, 81]),
        (Ramp(7, 1.0), [7, 14, 21, 28]),
        (Ramp(1, 1.0000001), [1, 2, 3, 4]),
        (Ramp(1, 1000.0), [1, 1001, 1_001_001, MAX_RELEASED]),
    ],
)
def test_each_step_is_larger_than_the_one_before(ramp: Ramp, totals: list[int]) -> None:
    assert [ramp.released_by(float(step)) for step in range(len(totals))] == totals


def test_nothing_changes_within_a_step() -> None:
    ramp = Ramp(first=5, factor=3.0, every=10.0)
    assert [ramp.released_by(seconds) for seconds in (0.0, 9.999, 10.0, 19.999, 20.0)] == [5, 5, 20, 20, 65]


def test_the_allowance_is_the_part_that_has_not_been_released_yet() -> None:
    ramp = Ramp()
    assert ramp.allowance(100.0, 100.0, 0) == 10
    assert ramp.allowance(100.0, 101.5, 10) == 20
    assert ramp.allowance(100.0, 101.5, 30) == 0
    assert ramp.allowance(100.0, 101.5, 999) == 0


def test_before_the_recovery_nothing_is_released() -> None:
    assert Ramp().released_by(-0.001) == Ramp().released_by(math.nan) == 0
    assert Ramp().allowance(since=100.0, now=99.0, released=0) == 0


@loop_over("ramp", [Ramp(), Ramp(1, 1.0, 0.001), Ramp(1, 1000.0, 0.001)])
@loop_over("seconds", [1e9, 1e300, math.inf])
def test_however_long_ago_it_is_a_number(ramp: Ramp, seconds: float) -> None:
    assert ramp.released_by(seconds) == MAX_RELEASED


@given(ramp=RAMPS, seconds=st.floats(0.0, 1e12), more=st.floats(0.0, 1e6))
def test_it_never_shrinks_and_a_step_later_it_is_more(ramp: Ramp, seconds: float, more: float) -> None:
    now = ramp.released_by(seconds)
    assert ramp.first <= now <= ramp.released_by(seconds + more)
    assert now < ramp.released_by(seconds + 1.01 * ramp.every + 0.01) or now == MAX_RELEASED


@given(ramp=RAMPS, step=st.integers(0, 40))
def test_it_is_the_sum_of_its_steps(ramp: Ramp, step: int) -> None:
    total = math.fsum(ramp.first * ramp.factor**each for each in range(step + 1))
    expected = min(total, MAX_RELEASED)
    assert abs(ramp.released_by((step + 0.5) * ramp.every) - expected) <= 1.0


@loop_over(
    "wrong",
    [
        {"first": 0},
        {"first": 2.5},
        {"first": True},
        {"factor": 0.5},
        {"factor": math.nan},
        {"factor": 1001.0},
        {"every": 0.0},
        {"every": math.inf},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(wrong))):
        Ramp(**wrong)  # type: ignore[arg-type]
