"""Moments: seconds since 1970, as people in some time zone and as programs write them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

_EARLIEST, _LATEST = 0.0, 4e10


def instant(moment: float) -> datetime:
    """Return the moment in UTC, or the nearest one of the calendar, so that damaged data can be shown."""
    return datetime.fromtimestamp(min(max(moment, _EARLIEST), _LATEST), UTC)


def absolute(moment: float, zone: tzinfo) -> str:
    """Format to the second, with the zone: "2026-11-16 04:00:10 CET"."""
    return instant(moment).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock(moment: float, zone: tzinfo) -> str:
    """Format the time of day to the millisecond: "04:00:10.517"."""
    return instant(moment).astimezone(zone).strftime("%H:%M:%S.%f")[:-3]


def machine(moment: float) -> str:
    """Format for programs, as RFC 3339 in UTC: "2026-11-16T04:00:10Z"."""
    return instant(moment).strftime("%Y-%m-%dT%H:%M:%SZ")
