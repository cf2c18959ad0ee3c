"""Charts: numbers over time as plain geometry, which parts/chart.html draws as SVG.

Horizontal positions are in percent of the width, vertical ones in pixels. So a chart fills the room that it
has, and neither its text nor its lines are stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from redrive.server.admin.axis import Tick, amount, anchored, round_numbers, round_times, time_label
from redrive.words.time import instant

HEIGHT = 132.0
MARGIN = 8.0
MIN_HEIGHT = 1.5
"""The height of the smallest bar, so that every number but 0 is visible."""
SPARK_WIDTH, SPARK_HEIGHT = 96.0, 20.0
_FILLED = 0.78


class Series(NamedTuple):
    """`tone` is a colour of the style sheet. A series `below` is drawn downwards from the line of 0."""

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
    """All bars of one stretch of time. A browser shows the title where the pointer rests."""

    x: float
    width: float
    title: str
    boxes: Sequence[Box]


class ChartRow(NamedTuple):
    since: float
    numbers: Sequence[int]


class Chart(NamedTuple):
    """
    zero      the distance of the line of 0 from the top
    totals    the sum of each series
    rows      the same as a table, without rows that are all 0
    """

    title: str
    series: Sequence[Series]
    columns: Sequence[Column]
    across: Sequence[Tick]
    down: Sequence[Tick]
    zero: float
    totals: Sequence[int]
    rows: Sequence[ChartRow]
    height: float = HEIGHT

    @property
    def is_empty(self) -> bool:
        return not any(self.totals)


class Spark(NamedTuple):
    boxes: Sequence[Box]
    width: float = SPARK_WIDTH
    height: float = SPARK_HEIGHT


def bars(title: str, since: float, seconds: float, series: Sequence[Series], zone: tzinfo) -> Chart:
    """Draw stacked bars, one for each stretch of `seconds`, from `since` on."""
    count = max((len(line.numbers) for line in series), default=0)
    rows = [ChartRow(since + at * seconds, [_number(line, at) for line in series]) for at in range(count)]
    scale = _Scale.of(series, rows)
    columns = [_column(at, count, row, seconds, series, scale, zone) for at, row in enumerate(rows)]
    return Chart(
        title,
        series,
        columns,
        _times(since, since + count * seconds, zone),
        scale.ticks(),
        scale.zero,
        [sum(line.numbers) for line in series],
        [row for row in rows if any(row.numbers)],
    )


def sparkline(numbers: Sequence[int]) -> Spark:
    """Draw tiny bars, the newest on the right; a 0 leaves a trace of the line."""
    most, wide = max(numbers, default=0), SPARK_WIDTH / max(1, len(numbers))
    boxes = []
    for at, number in enumerate(numbers):
        high = max(MIN_HEIGHT, SPARK_HEIGHT * number / most) if number > 0 else 1.0
        tone = "some" if number > 0 else "none"
        boxes.append(Box(_cut(at * wide), _cut(SPARK_HEIGHT - high), _cut(wide * _FILLED), _cut(high), tone))
    return Spark(boxes)


class _Scale(NamedTuple):
    """Maps numbers to places: upwards to the largest, and downwards if a series is drawn there."""

    above: Sequence[int]
    below: Sequence[int]
    zero: float
    unit: float

    @classmethod
    def of(cls, series: Sequence[Series], rows: Sequence[ChartRow]) -> _Scale:
        has_below = any(line.below for line in series)
        up, down = _highest(series, rows, below=False), _highest(series, rows, below=True)
        steps = round_numbers(max(up, down), 2 if has_below else 4)
        above = steps if not has_below else _steps_to(up, steps)
        below = _steps_to(down, steps) if has_below else [0]
        unit = (HEIGHT - 2 * MARGIN) / (above[-1] + below[-1])
        return cls(above, below, MARGIN + above[-1] * unit, unit)

    def ticks(self) -> list[Tick]:
        up = [Tick(_cut(self.zero - step * self.unit), amount(step)) for step in self.above]
        return up + [Tick(_cut(self.zero + step * self.unit), amount(step)) for step in self.below[1:]]


def _steps_to(most: int, steps: Sequence[int]) -> list[int]:
    """Return as many of the steps as reach `most`, and at least one after 0."""
    return [step for at, step in enumerate(steps) if at < 2 or steps[at - 1] < most]


def _highest(series: Sequence[Series], rows: Sequence[ChartRow], *, below: bool) -> int:
    places = [at for at, line in enumerate(series) if line.below is below]
    return max((sum(row.numbers[at] for at in places) for row in rows), default=0)


def _column(
    at: int, count: int, row: ChartRow, seconds: float, series: Sequence[Series], scale: _Scale, zone: tzinfo
) -> Column:
    wide = 100.0 / count
    left, width = _cut(at * wide), _cut(wide)
    boxes = _stacked(_cut((at + (1 - _FILLED) / 2) * wide), _cut(wide * _FILLED), row, series, scale)
    return Column(left, width, _title(row, seconds, series, zone), boxes)


def _stacked(x: float, width: float, row: ChartRow, series: Sequence[Series], scale: _Scale) -> list[Box]:
    boxes, top, bottom = [], scale.zero, scale.zero
    for line, number in zip(series, row.numbers, strict=True):
        if number <= 0:
            continue
        high = max(MIN_HEIGHT, number * scale.unit)
        if line.below:
            bottom = min(bottom, HEIGHT - high)
            boxes.append(Box(x, _cut(bottom), width, _cut(high), line.tone))
            bottom += high
        else:
            top = max(0.0, top - high)
            boxes.append(Box(x, _cut(top), width, _cut(high), line.tone))
    return boxes


def _title(row: ChartRow, seconds: float, series: Sequence[Series], zone: tzinfo) -> str:
    since, until = (instant(moment).astimezone(zone) for moment in (row.since, row.since + seconds))
    lines = [f"{line.name}: {number:,}" for line, number in zip(series, row.numbers, strict=True)]
    return "\n".join([f"{since:%a %d %b %H:%M} – {until:%H:%M}", *lines])


def _times(since: float, until: float, zone: tzinfo) -> list[Tick]:
    return [
        anchored(
            _cut(100.0 * (moment - since) / (until - since)),
            time_label(moment, zone),
            100.0,
            spare=bool(at % 2),
        )
        for at, moment in enumerate(round_times(since, until, zone))
    ]


def _number(series: Series, at: int) -> int:
    return max(0, series.numbers[at]) if at < len(series.numbers) else 0


def _cut(value: float) -> float:
    """Round to hundredths: less is invisible, and makes pages larger."""
    return round(value, 2)
