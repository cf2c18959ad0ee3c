"""How far back an overview looks."""

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


_WIDTHS = {Span.HOUR: 300, Span.SIX_HOURS: 600, Span.DAY: 1800, Span.WEEK: 7200}
_PARTS = {Span.HOUR: 12, Span.SIX_HOURS: 36, Span.DAY: 48, Span.WEEK: 84}
