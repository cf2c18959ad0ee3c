"""Times in words: durations, which can be parsed again, and moments."""

from __future__ import annotations

from contextlib import suppress
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.words.time import MAX_SECONDS, absolute, age, ago, clock, duration, machine, pace, parse_duration


@loop_over(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.25, "250 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.26, "1.26 s"),
        (12.5, "12.5 s"),
        (45, "45 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (90, "1 min 30 s"),
        (3_599.9, "1 h"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (86_399, "1 d"),
        (187_200, "2 d 4 h"),
        (float("inf"), "10000000 d"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (0.9, "0 s"), (59.99, "59 s"), (119, "1 min"), (7_199, "1 h"), (777_600, "9 d")],
)
def test_an_age_has_one_unit_and_is_rounded_down(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_a_time_is_relative_to_now() -> None:
    assert ago(40.0, 100.0) == "1 min ago"
    assert ago(100.4, 100.0) == "now"
    assert ago(100_000.0, 100.0) == "in 1 d"


@loop_over(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("250ms", 0.25),
        ("1.5h", 5_400),
        ("5m", 300),
        ("5 min", 300),
        (" 90D ", 7_776_000),
        ("4w", 2_419_200),
        ("1h30m", 5_400),
        ("1 min 30 s", 90),
    ],
)
def test_a_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_a_number_without_a_unit_needs_a_default() -> None:
    assert parse_duration("0.25", unit="s") == 0.25
    with pytest.raises(InvalidValueError, match=r"'30' is not a duration\. Write a number and a unit"):
        parse_duration("30")


@loop_over("text", ["", "s", "-3s", "1.s", "3 x", "1e3s", "3s x", "1234567890123s", "٣s"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="is not a duration"):
        parse_duration(text, unit="s")


def test_a_duration_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="is too long: a duration is at most 10000000 d"):
        parse_duration("999999999999w")


@given(st.floats(0, MAX_SECONDS))
def test_formatted_durations_can_be_parsed(seconds: float) -> None:
    assert duration(parse_duration(duration(seconds))) == duration(seconds)
    assert parse_duration(duration(seconds)) == pytest.approx(seconds, rel=0.03, abs=1e-6)
    assert parse_duration(age(seconds)) <= seconds


@given(st.text())
def test_a_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(InvalidValueError):
        assert 0 <= parse_duration(text, unit="s") <= MAX_SECONDS


def test_a_moment_in_the_hour_that_comes_twice_says_its_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, second = 1_761_438_600.0, 1_761_442_200.0
    assert absolute(first, zone) == "2025-10-26 02:30:00 CEST"
    assert absolute(second, zone) == "2025-10-26 02:30:00 CET"
    assert clock(first + 0.5178, zone) == "02:30:00.517"


@given(st.floats(allow_nan=False))
def test_any_moment_can_be_shown(moment: float) -> None:
    assert absolute(moment, ZoneInfo("UTC"))
    assert machine(moment).endswith("Z")
    assert ago(moment, 1e9)


def test_a_slow_pace_is_a_time_between_two() -> None:
    assert [pace(rate) for rate in (2.5, 1.0, 1_000, 0.5, 1 / 54)] == [
        "2.5 per second",
        "1 per second",
        "1000 per second",
        "1 every 2 s",
        "1 every 54 s",
    ]
