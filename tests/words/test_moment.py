"""Moments."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from redrive.words.duration import ago
from redrive.words.moment import absolute, clock, machine


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
