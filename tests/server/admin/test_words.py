"""Words for people."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure_group import GroupState
from redrive.model.replay import OperationState, ReplayState
from redrive.model.run import RunState
from redrive.model.step import StepState
from redrive.server.admin import words
from redrive.server.admin.mark import mark


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0004, "0 ms"),
        (0.45, "450 ms"),
        (1.26, "1.3 s"),
        (59.9, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (187_200, "2 d 4 h"),
        (-5, "0 ms"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_moments_are_told_from_now() -> None:
    assert words.ago(None, 100.0) == "–"
    assert words.ago(100.4, 100.0) == "now"
    assert words.ago(40.0, 100.0) == "1 min ago"
    assert words.ago(100_000.0, 100.0) == "in 1 d"


def test_a_moment_in_the_hour_that_comes_twice_says_its_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, second = 1_761_438_600.0, 1_761_442_200.0
    assert words.absolute(first, zone) == "2025-10-26 02:30:00 CEST"
    assert words.absolute(second, zone) == "2025-10-26 02:30:00 CET"


@given(st.floats(allow_nan=False))
def test_no_moment_keeps_a_page_from_being_shown(moment: float) -> None:
    assert words.absolute(moment, ZoneInfo("UTC"))
    assert words.machine(moment).endswith("Z")
    assert words.ago(moment, 1e9)


def test_nothing_is_rounded_to_all_or_to_none() -> None:
    assert [words.percent(each) for each in (None, 0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "–",
        "0 %",
        "< 1 %",
        "50 %",
        "> 99 %",
        "100 %",
    ]


@given(st.text(), st.integers(2, 50))
def test_short_texts_are_short_and_one_line(text: str, most: int) -> None:
    shown = words.short(text, most)
    assert len(shown) <= most
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("", [*RunState, *StepState, *DeadLetterState, *GroupState, *OperationState, *ReplayState]),
        ("breaker", list(BreakerState)),
    ],
)
def test_every_state_has_a_word_a_shape_and_a_colour_of_its_own(kind: str, states: list[str]) -> None:
    for state in states:
        found = mark(state, kind)
        assert found.word != str(state)
        assert (found.shape == "dash") == (found.tone == "calm"), state


def test_a_state_that_nobody_knows_is_still_shown() -> None:
    assert mark("SOME_NEW_STATE").word == "Some new state"
