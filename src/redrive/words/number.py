"""Format numbers: with separators, with a noun, as a percentage or as a size in bytes; and lists of names."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    """Format with thousands separators and at most one decimal: "12,345", "0.5"."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}".removesuffix(".0")


def plural(value: int, one: str, many: str = "") -> str:
    """Count a noun: "1 dead letter", "2 dead letters". `many` is the plural if it isn't `one` with an "s"."""
    return f"{value:,} {noun(value, one, many)}"


def noun(value: int, one: str, many: str = "") -> str:
    """Return the form of a noun or a verb that fits the number, without the number."""
    return one if value == 1 else many or f"{one}s"


def percent(part: float) -> str:
    """Format a share between 0 and 1. Only exact values are "0%" and "100%": 0.001 is "< 1%"."""
    if 0.0 < part < 0.01 or 0.99 < part < 1.0:
        return "< 1%" if part < 0.5 else "> 99%"
    return f"{100.0 * part:.0f}%"


def size(number_of_bytes: float) -> str:
    """Format a number of bytes in decimal units: "12 KB"."""
    rest = number_of_bytes
    for unit in ("bytes", "KB", "MB", "GB"):
        if rest < 1_000:
            return f"{rest:.0f} {unit}"
        rest /= 1_000
    return f"{rest:.1f} TB"


def names(items: Sequence[str], limit: int) -> str:
    """Join the first `limit` names with commas and count the others: "a, b and 3 more"."""
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more:,} more" if more > 0 else "")
