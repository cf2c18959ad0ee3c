"""Retry-After: the wait that a server asks for."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from redrive.policy.bounds import MAX_DELAY_SECONDS

MAX_HINT_SECONDS = MAX_DELAY_SECONDS
"""The maximum that a failure can hold. A retry decision has a lower limit: LONGEST_HINT by default."""

LONGEST_HINT = 7 * 86_400.0
"""Retries wait no longer than this for a server: its mistake must not delay work for a year."""

MAX_TEXT_LENGTH = 64


def parse_retry_after(value: object, *, now: float | None) -> float | None:
    """Parse the seconds to wait; None if the value is not valid.

    The value is a number of seconds, a timedelta, or an HTTP date, which needs `now`.
    """
    text = _text(value)
    if text is None:
        return _clamp(_number(value))
    seconds = _from_digits(text)
    return _from_date(text, now) if seconds is None and now is not None else _clamp(seconds)


def parse_milliseconds(value: object) -> float | None:
    """Parse the seconds to wait from a number of milliseconds; None if the value is not valid."""
    text = _text(value)
    milliseconds = _number(value) if text is None else _from_digits(text)
    return None if milliseconds is None else _clamp(milliseconds / 1000)


def _text(value: object) -> str | None:
    # By type(), without calling methods of a subclass: the value comes from an untrusted exception.
    if issubclass(type(value), bytes):
        value = bytes.decode(cast("bytes", value), "ascii", "replace")
    if issubclass(type(value), str):
        return str.strip(cast("str", value))
    return None


def _number(value: object) -> float | None:
    if issubclass(type(value), float):
        return float.__float__(cast("float", value))
    if issubclass(type(value), int) and type(value) is not bool:
        whole = int.__int__(cast("int", value))
        return float(min(whole, 10**12)) if whole >= 0 else None
    if issubclass(type(value), timedelta):
        return timedelta.total_seconds(cast("timedelta", value))
    return None


def _from_digits(text: str) -> float | None:
    if len(text) <= MAX_TEXT_LENGTH and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    return None


def _from_date(text: str, now: float) -> float | None:
    from datetime import UTC  # slow to import and rarely needed
    from email.utils import parsedate_to_datetime

    if len(text) > MAX_TEXT_LENGTH:
        return None
    try:
        date = parsedate_to_datetime(text)
        # The oldest of the three forms of an HTTP date has no zone; all three mean UTC.
        moment = date if date.tzinfo else date.replace(tzinfo=UTC)
        return _clamp(max(0.0, moment.timestamp() - now))
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def _clamp(seconds: float | None) -> float | None:
    if seconds is None or not seconds >= 0:
        return None
    return min(seconds, MAX_HINT_SECONDS)
