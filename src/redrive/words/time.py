"""Durations such as "450 ms" or "1 min 30 s", and moments such as "2026-11-16 04:00:10 CET".

`duration` is exact, for the length of attempts and waits; `age` has one unit, for lists and "… ago".
Moments are in seconds since 1970.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType

from redrive.errors import InvalidValueError

MAX_SECONDS = 10_000_000 * 86_400.0
"""About 27,000 years. A longer duration is formatted as this one, so that damaged data stays readable."""

UNIT_SECONDS = MappingProxyType(
    {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
)
"""The units that `parse_duration` accepts."""

_EARLIEST, _LATEST = 0.0, 4e10
"""The range of moments that can be formatted."""

_UNITS = ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s"))
"""Seconds and names of the units in formatted durations, each with the next smaller one."""

_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|min|[smhdw])")
_PARTS = re.compile(rf"{_PART.pattern}(?: ?{_PART.pattern})*")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


def duration(seconds: float) -> str:
    """Format a duration with its two largest units: "1 min 30 s". A negative one counts as zero.

    Below a minute it has three significant digits: "12.5 s", "450 ms".
    """
    seconds = _bounded(seconds)
    return _below_a_minute(seconds) if seconds < 59.95 else _two_units(seconds)


def age(seconds: float) -> str:
    """Format a duration with one unit, rounded down: "45 s", "1 min", "3 h"."""
    seconds = _bounded(seconds)
    for size, _, name, _ in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{int(seconds)} s"


def pace(per_second: float) -> str:
    """Format a rate: "2.5 per second", or "1 every 54 s" if it is slower than that."""
    return f"{per_second:.4g} per second" if per_second >= 1.0 else f"1 every {duration(1.0 / per_second)}"


def ago(moment: float, now: float) -> str:
    """Say how long ago a moment was, or when it will be: "12 min ago", "now", "in 3 h"."""
    if abs(moment - now) < 1.0:
        return "now"
    return f"in {age(moment - now)}" if moment > now else f"{age(now - moment)} ago"


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_SECONDS)


def _below_a_minute(seconds: float) -> str:
    if seconds < 0.0000005:
        return "0 s"
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _two_units(seconds: float) -> str:
    """Round to the smaller unit before choosing the larger one: 3,599.9 s is "1 h", not "60 min"."""
    for size, smaller, name, smaller_name in _UNITS:
        whole, rest = divmod(round(seconds / smaller), size // smaller)
        if whole:
            return f"{whole} {name} {rest} {smaller_name}" if rest else f"{whole} {name}"
    return "1 min"


def parse_duration(text: str, *, unit: str = "") -> float:
    """Return the seconds of "90d", "1.5 h" or "1h30m", or of a text that `duration` returned.

    `unit` applies to a number without a unit. Without it, the text must name its unit.
    """
    text = text.strip().lower()
    if unit and _NUMBER.fullmatch(text):
        text += unit
    if _PARTS.fullmatch(text) is None:
        bare = ", or a number alone" if unit else ""
        raise InvalidValueError(
            f"{text[:100]!r} is not a duration. Write a number and a unit (ms, s, m, h, d or w), such as "
            f"30s, 1.5h or 90d{bare}"
        )
    seconds = sum(float(number) * UNIT_SECONDS[name] for number, name in _PART.findall(text))
    if seconds > MAX_SECONDS:
        raise InvalidValueError(f"{text[:100]!r} is too long: a duration is at most {duration(MAX_SECONDS)}")
    return seconds


def instant(moment: float) -> datetime:
    """Return the moment in UTC, or the nearest one of the calendar, so that damaged data can be shown."""
    return datetime.fromtimestamp(min(max(moment, _EARLIEST), _LATEST), UTC)


def absolute(moment: float, zone: tzinfo) -> str:
    """Format to the second, with the zone: "2026-11-16 04:00:10 CET"."""
    return instant(moment).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock(moment: float, zone: tzinfo) -> str:
    """Format the time of day to the millisecond: "04:00:10.517"."""
    return instant(moment).astimezone(zone).strftime("%H:%M:%S.%f")[:-3]


def machine(moment: float, *, milliseconds: bool = False) -> str:
    """Format for programs, as RFC 3339 in UTC: "2026-11-16T04:00:10Z"."""
    precision = "milliseconds" if milliseconds else "seconds"
    return instant(moment).isoformat(timespec=precision).replace("+00:00", "Z")
