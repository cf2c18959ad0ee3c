"""Words for people: moments, durations and numbers, as the pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import pairwise

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_EARLIEST, _LATEST = 0.0, 4e10


def number(value: float | None) -> str:
    """With separators; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}".removesuffix(".0")


def plural(value: int, one: str, many: str = "") -> str:
    """1 dead letter, 2 dead letters."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def percent(part: float | None) -> str:
    """Nothing is rounded to all or to none."""
    if part is None:
        return "–"
    if 0.0 < part < 0.01 or 0.99 < part < 1.0:
        return "< 1 %" if part < 0.5 else "> 99 %"
    return f"{100.0 * part:.0f} %"


def duration(seconds: float | None) -> str:
    """The two largest units that matter: 2 d 4 h, 3 min 20 s, 450 ms."""
    if seconds is None:
        return "–"
    seconds = min(max(0.0, seconds), _LATEST)
    if seconds < 0.9995:
        return f"{seconds * 1000.0:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return _two_units(round(seconds))


def _two_units(seconds: int) -> str:
    for (size, name), (below, lesser) in pairwise(_UNITS):
        if seconds >= size:
            rest = int(seconds % size // below)
            return f"{int(seconds // size)} {name}" + (f" {rest} {lesser}" if rest else "")
    return f"{seconds} s"


def age(seconds: float) -> str:
    """One unit alone, for lists: 45 s, 12 min, 3 h, 9 d."""
    seconds = min(max(0.0, seconds), _LATEST)
    for size, name in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return "0 s"


def ago(moment: float | None, now: float) -> str:
    """12 min ago, in 3 h."""
    if moment is None:
        return "–"
    if abs(moment - now) < 1.0:
        return "now"
    return f"in {age(moment - now)}" if moment > now else f"{age(now - moment)} ago"


def instant(moment: float) -> datetime:
    """What somebody has damaged by hand must not keep a page from being shown."""
    return datetime.fromtimestamp(min(max(moment, _EARLIEST), _LATEST), UTC)


def absolute(moment: float | None, zone: tzinfo) -> str:
    """To the second, with its zone."""
    if moment is None:
        return "–"
    return instant(moment).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock(moment: float | None, zone: tzinfo) -> str:
    """To the thousandth, for what happens within one day."""
    if moment is None:
        return "–"
    return instant(moment).astimezone(zone).strftime("%H:%M:%S.%f")[:-3]


def machine(moment: float) -> str:
    """For programs, such as the script that keeps `ago` true."""
    return instant(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def short(text: str, most: int = 120) -> str:
    """Its beginning, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
