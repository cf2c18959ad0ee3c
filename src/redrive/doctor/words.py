"""Numbers as people say them."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.model.query import MAX_COUNTED

MAX_NAMED = 5


def span(seconds: float) -> str:
    for unit, length in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def size(number: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1_000:
            return f"{number:.0f} {unit}"
        number /= 1_000
    return f"{number:.1f} TB"


def count(number: int, one: str, several: str = "") -> str:
    """What is counted up to a limit is at least that."""
    more = "+" if number >= MAX_COUNTED else ""
    return f"{min(number, MAX_COUNTED):,}{more} {one if number == 1 else several or f'{one}s'}"


def names(several: Sequence[str]) -> str:
    more = len(several) - MAX_NAMED
    return ", ".join(several[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
