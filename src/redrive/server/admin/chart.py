"""Charts: numbers over time as plain geometry, which parts/chart.html draws as SVG.

Horizontal positions are in percent of the width, vertical ones in pixels. So a chart fills the
available width without stretching its text and lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from math import ceil, floor, log10
from typing import NamedTuple

from redrive.words.time import instant

HEIGHT = 132.0
MARGIN = 8.0
MIN_HEIGHT = 1.5
"""The height of the smallest bar, so that every number except 0 is visible."""
SPARK_WIDTH, SPARK_HEIGHT = 96.0, 20.0
_FILLED = 0.78
_STEPS = (
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_419_200),
)
_DAY = 86_400


class Tick(NamedTuple):
    """
    place   the position, in units of the drawing
    anchor  the alignment of the label: start, middle or end, so that no label is cut off at the edge
    spare   omitted on a narrow screen
    """

    place: float
    label: str
    anchor: str = "middle"
    spare: bool = False


class Series(NamedTuple):
    """`tone` is a color of the style sheet. A series `below` is drawn downwards from the zero line."""

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
    """All bars of one time interval. `title` is the tooltip."""

    x: float
    width: float
    title: str
    boxes: Sequence[Box]


class ChartRow(NamedTuple):
    since: float
    numbers: Sequence[int]


class Chart(NamedTuple):
    """
    zero      the distance of the zero line from the top
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
    """Draw stacked bars, one per interval of `seconds`, starting at `since`."""
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
    """Draw tiny bars, the newest on the right; a 0 is a thin line."""
    most, wide = max(numbers, default=0), SPARK_WIDTH / max(1, len(numbers))
    boxes = []
    for at, number in enumerate(numbers):
        high = max(MIN_HEIGHT, SPARK_HEIGHT * number / most) if number > 0 else 1.0
        tone = "some" if number > 0 else "none"
        boxes.append(Box(_cut(at * wide), _cut(SPARK_HEIGHT - high), _cut(wide * _FILLED), _cut(high), tone))
    return Spark(boxes)


class _Scale(NamedTuple):
    """Maps numbers to vertical positions: upwards, and also downwards if a series is drawn there."""

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
    """Return the steps up to the first that reaches `most`, with at least one after 0."""
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


# Ticks


def round_step(most: float, number: int = 4) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 ... that reaches `most` in that many steps."""
    if most <= number:
        return 1.0
    magnitude = 10.0 ** floor(log10(most / number))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10, 20) if factor * magnitude * number >= most * (1 - 1e-9)
    )


def round_numbers(most: float, number: int = 4) -> list[int]:
    """Return 0, 5, 10, 15: from zero to the first round number that is not below `most`."""
    step = round_step(most, number)
    return [int(index * step) for index in range(max(1, ceil(most / step - 1e-9)) + 1)]


def amount(value: float) -> str:
    """Format a number for an axis: 950, 1.2k, 30k, 4M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}"


def round_times(since: float, until: float, zone: tzinfo, most: int = 8) -> list[float]:
    """Return at most `most` full minutes, hours or days of that zone."""
    step = next((seconds for seconds in _STEPS if (until - since) / seconds <= most), None)
    if step is None or until <= since:
        return []
    return [moment for moment in _wall_times(since, until, zone, step) if since <= moment <= until]


def time_label(moment: float, zone: tzinfo) -> str:
    """Return the time of day, or at midnight the day."""
    there = instant(moment).astimezone(zone)
    return f"{there:%a} {there.day}" if (there.hour, there.minute) == (0, 0) else f"{there:%H:%M}"


def anchored(place: float, label: str, whole: float, spare: bool = False) -> Tick:
    """Return a tick; near an edge, its label is aligned inwards."""
    if place < 0.04 * whole:
        return Tick(place, label, "start", spare)
    return Tick(place, label, "end" if place > 0.96 * whole else "middle", spare)


def _wall_times(since: float, until: float, zone: tzinfo, step: int) -> Iterator[float]:
    """Follow local time, so that ticks stay on full hours when daylight saving time starts or ends."""
    before = 0.0
    for midnight in _midnights(since, until, zone, max(1, step // _DAY)):
        for seconds in range(0, _DAY, min(step, _DAY)):
            there = midnight + timedelta(seconds=seconds)
            moment = there.replace(tzinfo=zone).astimezone(UTC).timestamp()
            if moment > before:
                yield moment
                before = moment


def _midnights(since: float, until: float, zone: tzinfo, days: int) -> Iterator[datetime]:
    """Yield the start of every `days`-th day, counted from a fixed day, whatever the range."""
    day = instant(since).astimezone(zone).date()
    day -= timedelta(days=day.toordinal() % days)
    last = instant(until).astimezone(zone).date()
    while day <= last:
        yield datetime(day.year, day.month, day.day)  # noqa: DTZ001 — the zone is put to it with the time of day
        day += timedelta(days=days)
