"""Charts: numbers over time as plain geometry, which parts/chart.html draws as SVG.

Across, places are in percent of the width; down, in pixels. So a chart fills whatever room it is given, and
neither its text nor its lines are stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from redrive.server.admin.axis import Tick, amount, anchored, round_numbers, round_times, time_label
from redrive.server.admin.words import instant

HEIGHT = 132.0
MARGIN = 8.0
LEAST = 1.5
"""A number that is not 0 can be seen, however small it is beside the others."""
SPARK_WIDTH, SPARK_HEIGHT = 96.0, 20.0
_FILLED = 0.78


class Series(NamedTuple):
    """`tone` is a colour of the style sheet; what is `below` is drawn downwards from the line of 0."""

    name: str
    tone: str
    numbers: Sequence[int]
    below: bool = False


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    tone: str = ""


class Column(NamedTuple):
    """All bars of one stretch of time, and what is told about it where the pointer rests."""

    x: float
    width: float
    told: str
    boxes: Sequence[Box]


class Row(NamedTuple):
    since: float
    numbers: Sequence[int]


class Chart(NamedTuple):
    """
    zero      how far down the line of 0 lies
    totals    of each series
    rows      the same as a table: those that are not all 0
    """

    title: str
    series: Sequence[Series]
    columns: Sequence[Column]
    across: Sequence[Tick]
    down: Sequence[Tick]
    zero: float
    totals: Sequence[int]
    rows: Sequence[Row]
    height: float = HEIGHT

    @property
    def is_empty(self) -> bool:
        return not any(self.totals)


class Spark(NamedTuple):
    boxes: Sequence[Box]
    width: float = SPARK_WIDTH
    height: float = SPARK_HEIGHT


def bars(title: str, since: float, seconds: float, series: Sequence[Series], zone: tzinfo) -> Chart:
    """Stacked bars, one for each stretch of `seconds`, from `since` on."""
    number = max((len(each.numbers) for each in series), default=0)
    rows = [Row(since + at * seconds, [_number(each, at) for each in series]) for at in range(number)]
    scale = _Scale.of(series, rows)
    columns = [_column(at, number, row, seconds, series, scale, zone) for at, row in enumerate(rows)]
    return Chart(
        title,
        series,
        columns,
        _times(since, since + number * seconds, zone),
        scale.ticks(),
        scale.zero,
        [sum(each.numbers) for each in series],
        [row for row in rows if any(row.numbers)],
    )


def sparkline(numbers: Sequence[int]) -> Spark:
    """Tiny bars, the newest on the right. Where there was nothing, a trace of the line is left."""
    most, wide = max(numbers, default=0), SPARK_WIDTH / max(1, len(numbers))
    boxes = []
    for at, number in enumerate(numbers):
        high = max(LEAST, SPARK_HEIGHT * number / most) if number > 0 else 1.0
        tone = "some" if number > 0 else "none"
        boxes.append(Box(_cut(at * wide), _cut(SPARK_HEIGHT - high), _cut(wide * _FILLED), _cut(high), tone))
    return Spark(boxes)


class _Scale(NamedTuple):
    """From numbers to places: upwards to the largest, and downwards where something is drawn there."""

    above: Sequence[int]
    below: Sequence[int]
    zero: float
    unit: float

    @classmethod
    def of(cls, series: Sequence[Series], rows: Sequence[Row]) -> _Scale:
        has_below = any(each.below for each in series)
        up, down = _highest(series, rows, below=False), _highest(series, rows, below=True)
        step_of = round_numbers(max(up, down), 2 if has_below else 4)
        above = step_of if not has_below else _reaching(up, step_of)
        below = _reaching(down, step_of) if has_below else [0]
        unit = (HEIGHT - 2 * MARGIN) / (above[-1] + below[-1])
        return cls(above, below, MARGIN + above[-1] * unit, unit)

    def ticks(self) -> list[Tick]:
        up = [Tick(_cut(self.zero - each * self.unit), amount(each)) for each in self.above]
        return up + [Tick(_cut(self.zero + each * self.unit), amount(each)) for each in self.below[1:]]


def _reaching(most: int, steps: Sequence[int]) -> list[int]:
    """As many of the steps as it takes, and at least one."""
    return [each for at, each in enumerate(steps) if at < 2 or steps[at - 1] < most]


def _highest(series: Sequence[Series], rows: Sequence[Row], *, below: bool) -> int:
    chosen = [at for at, each in enumerate(series) if each.below is below]
    return max((sum(row.numbers[at] for at in chosen) for row in rows), default=0)


def _column(
    at: int, number: int, row: Row, seconds: float, series: Sequence[Series], scale: _Scale, zone: tzinfo
) -> Column:
    wide = 100.0 / number
    left, width = _cut(at * wide), _cut(wide)
    boxes = _stacked(_cut((at + (1 - _FILLED) / 2) * wide), _cut(wide * _FILLED), row, series, scale)
    return Column(left, width, _told(row, seconds, series, zone), boxes)


def _stacked(x: float, width: float, row: Row, series: Sequence[Series], scale: _Scale) -> list[Box]:
    boxes, top, bottom = [], scale.zero, scale.zero
    for each, number in zip(series, row.numbers, strict=True):
        if number <= 0:
            continue
        high = max(LEAST, number * scale.unit)
        if each.below:
            bottom = min(bottom, HEIGHT - high)
            boxes.append(Box(x, _cut(bottom), width, _cut(high), each.tone))
            bottom += high
        else:
            top = max(0.0, top - high)
            boxes.append(Box(x, _cut(top), width, _cut(high), each.tone))
    return boxes


def _told(row: Row, seconds: float, series: Sequence[Series], zone: tzinfo) -> str:
    since, until = (instant(each).astimezone(zone) for each in (row.since, row.since + seconds))
    lines = [f"{each.name}: {number:,}" for each, number in zip(series, row.numbers, strict=True)]
    return "\n".join([f"{since:%a %d %b %H:%M} – {until:%H:%M}", *lines])


def _times(since: float, until: float, zone: tzinfo) -> list[Tick]:
    found = round_times(since, until, zone)
    places = [100.0 * (each - since) / (until - since) for each in found]
    return [
        anchored(_cut(place), time_label(moment, zone), 100.0, spare=bool(at % 2))
        for at, (place, moment) in enumerate(zip(places, found, strict=True))
    ]


def _number(series: Series, at: int) -> int:
    return max(0, series.numbers[at]) if at < len(series.numbers) else 0


def _cut(value: float) -> float:
    """Thousandths are nothing that can be seen, and pages are small without them."""
    return round(value, 2)
