"""Charts: everything is inside the frame, every value is visible, labels are round numbers and times."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.server.admin.chart import (
    HEIGHT,
    MIN_HEIGHT,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    Chart,
    Series,
    amount,
    anchored,
    bars,
    round_numbers,
    round_times,
    sparkline,
    time_label,
)

ZURICH, KATHMANDU = ZoneInfo("Europe/Zurich"), ZoneInfo("Asia/Kathmandu")
NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC).timestamp()
NUMBERS = st.lists(st.integers(0, 10**7), max_size=90)
CLOSE = 0.05


def drawn(*series: Series, seconds: float = 300.0) -> Chart:
    return bars("Runs by outcome", NOON, seconds, series, UTC)


@loop_over(
    ("most", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (4, [0, 1, 2, 3, 4]),
        (5, [0, 2, 4, 6]),
        (17, [0, 5, 10, 15, 20]),
        (100, [0, 50, 100]),
        (4000, [0, 1000, 2000, 3000, 4000]),
        (4001, [0, 2000, 4000, 6000]),
    ],
)
def test_an_axis_has_round_numbers(most: int, expected: list[int]) -> None:
    assert round_numbers(most) == expected


@given(st.integers(0, 10**12), st.integers(1, 8))
def test_an_axis_reaches_the_largest_number_and_not_much_further(most: int, number: int) -> None:
    found = round_numbers(most, number)
    assert found[0] == 0
    assert found[-1] >= most
    assert found[-2] < max(1, most)
    assert len(found) <= number + 1
    assert len({later - earlier for earlier, later in pairwise(found)}) == 1


def test_amounts_are_short() -> None:
    assert [amount(each) for each in (0, 7, 950, 1200, 30_000, 4_500_000)] == [
        *("0", "7", "950"),
        *("1.2k", "30k", "4.5M"),
    ]


def test_times_are_round_in_the_zone_of_the_reader() -> None:
    day = round_times(NOON, NOON + 86_400, KATHMANDU)
    assert [time_label(each, KATHMANDU) for each in day] == [
        *("18:00", "21:00", "Thu 5", "03:00", "06:00", "09:00", "12:00", "15:00"),
    ]
    hour = round_times(NOON + 130, NOON + 3730, UTC)
    assert [time_label(each, UTC) for each in hour] == [f"12:{each}0" for each in range(1, 6)] + ["13:00"]
    week = round_times(NOON, NOON + 7 * 86_400, ZURICH)
    assert [time_label(each, ZURICH) for each in week] == [
        *("Thu 5", "Fri 6", "Sat 7", "Sun 8", "Mon 9", "Tue 10", "Wed 11"),
    ]


def test_times_stay_round_where_the_clocks_change() -> None:
    before = datetime(2026, 3, 28, 23, 0, tzinfo=UTC).timestamp()
    found = [time_label(each, ZURICH) for each in round_times(before, before + 86_400, ZURICH)]
    assert found == ["Sun 29", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "Mon 30"]
    autumn = datetime(2026, 10, 24, 22, 0, tzinfo=UTC).timestamp()
    assert {time_label(each, ZURICH)[-2:] for each in round_times(autumn, autumn + 7 * 3600, ZURICH)[1:]} == {
        "00"
    }


@given(
    st.floats(0, 4e9),
    st.floats(1, 4e8),
    st.sampled_from(["UTC", "Europe/Zurich", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"]),
)
def test_times_are_few_in_order_and_inside(since: float, seconds: float, zone: str) -> None:
    found = round_times(since, since + seconds, ZoneInfo(zone))
    assert len(found) <= 10
    assert all(since <= each <= since + seconds for each in found)
    assert found == sorted(set(found))


def test_an_axis_without_a_length_or_for_a_lifetime_has_no_ticks() -> None:
    assert round_times(NOON, NOON, UTC) == []
    assert round_times(0.0, 4e10, UTC) == []


def test_texts_at_the_edges_lean_inwards() -> None:
    assert [anchored(each, "", 100.0).anchor for each in (0, 50, 100)] == ["start", "middle", "end"]


def test_bars_are_stacked_on_each_other() -> None:
    chart = drawn(Series("Succeeded", "good", [10, 0]), Series("Failed", "bad", [30, 0]))
    first, second = chart.columns
    good, bad = first.boxes
    assert (good.tone, bad.tone) == ("good", "bad")
    assert good.y + good.height == pytest.approx(chart.zero, abs=CLOSE)
    assert bad.y + bad.height == pytest.approx(good.y, abs=CLOSE)
    assert bad.height == pytest.approx(3 * good.height, abs=CLOSE)
    assert second.boxes == []
    assert chart.totals == [10, 30]
    assert [tick.label for tick in chart.down] == ["0", "10", "20", "30", "40"]
    assert chart.zero == chart.down[0].place > chart.down[-1].place


def test_outgoing_numbers_are_drawn_downwards_on_the_same_scale() -> None:
    chart = drawn(Series("Came", "bad", [20, 5]), Series("Left", "good", [10, 0], below=True))
    came, left = chart.columns[0].boxes
    assert came.y + came.height == pytest.approx(left.y, abs=CLOSE)
    assert came.height == pytest.approx(2 * left.height, abs=CLOSE)
    assert [tick.label for tick in chart.down] == ["0", "10", "20", "10"]
    assert chart.down[0].place < chart.down[3].place <= HEIGHT


def test_the_exact_numbers_are_shown_and_are_in_a_table() -> None:
    chart = drawn(Series("Succeeded", "good", [1234, 0, 3]), Series("Failed", "bad", [0, 0, 1]))
    assert chart.columns[0].title == "Wed 04 Mar 12:00 – 12:05\nSucceeded: 1,234\nFailed: 0"
    assert [(row.since - NOON, list(row.numbers)) for row in chart.rows] == [(0, [1234, 0]), (600, [3, 1])]


def test_an_empty_chart_is_valid() -> None:
    chart = drawn(Series("Succeeded", "good", [0] * 12))
    assert (chart.is_empty, chart.rows, len(chart.columns)) == (True, [], 12)
    assert [tick.label for tick in chart.down] == ["0", "1"]
    assert all(not column.boxes for column in chart.columns)
    nothing = drawn()
    assert (nothing.is_empty, nothing.columns, nothing.across) == (True, [], [])


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=6), st.sampled_from([300.0, 7200.0]))
def test_everything_is_inside_of_the_box(shown: list[tuple[list[int], bool]], seconds: float) -> None:
    chart = drawn(*(Series("x", "bad", numbers, below) for numbers, below in shown), seconds=seconds)
    for column in chart.columns:
        assert column.x >= 0
        assert column.x + column.width <= 100 + CLOSE
        for box in column.boxes:
            assert box.width > 0
            assert box.height >= MIN_HEIGHT
            assert box.x >= column.x - CLOSE
            assert box.x + box.width <= column.x + column.width + CLOSE
            assert box.y >= 0
            assert box.y + box.height <= HEIGHT + CLOSE
    assert all(0 <= each.place <= HEIGHT for each in chart.down)
    assert all(0 <= each.place <= 100 for each in chart.across)
    assert 0 <= chart.zero <= HEIGHT


@given(NUMBERS)
def test_a_sparkline_is_inside_its_frame_and_shows_every_value(numbers: list[int]) -> None:
    boxes = sparkline(numbers).boxes
    assert len(boxes) == len(numbers)
    for number, box in zip(numbers, boxes, strict=True):
        assert box.tone == ("some" if number else "none")
        assert box.x >= 0
        assert box.width > 0
        assert box.x + box.width <= SPARK_WIDTH + CLOSE
        assert box.y >= 0
        assert box.height > 0
        assert box.y + box.height == pytest.approx(SPARK_HEIGHT, abs=CLOSE)
    if any(numbers):
        assert max(box.height for box in boxes) == SPARK_HEIGHT
