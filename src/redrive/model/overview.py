"""Numbers over time: how far back an overview looks, and the parts that it counts in."""

from __future__ import annotations

from enum import StrEnum


class Span(StrEnum):
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def width(self) -> int:
        """The seconds of one part of it; figures are kept in parts of 300."""
        return _WIDTHS[self]

    @property
    def parts(self) -> int:
        return _PARTS[self]

    @property
    def seconds(self) -> int:
        return self.width * self.parts


def first_part(now: float, width: int, parts: int) -> int:
    """When the first of `parts` parts starts, the last of which is in progress. Parts are aligned to the
    clock, so that they are the same for everybody."""
    return (int(now // width) + 1 - parts) * width


def part_number(place: int, parts: int) -> int:
    """The part that counts what happened at `place`: the last one for what lies in the future, since the
    clock of the database may be ahead."""
    return min(place, parts - 1)


_WIDTHS = {Span.HOUR: 300, Span.SIX_HOURS: 600, Span.DAY: 1800, Span.WEEK: 7200}
_PARTS = {Span.HOUR: 12, Span.SIX_HOURS: 36, Span.DAY: 48, Span.WEEK: 84}
