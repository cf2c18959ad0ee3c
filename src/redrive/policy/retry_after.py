"""Retry-After: the server's own word on when to come back."""

from __future__ import annotations

LONGEST_HINT = 86_400.0
"""A hint of more than a day is cut to a day: a mistaken server must not put work to sleep for a year."""


def parse_retry_after(value: object, *, now: float | None) -> float | None:
    """Seconds to wait, from a number of seconds or an HTTP date (which needs `now`); None for nonsense."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        return _from_text(value.strip(), now)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _clamp(value)
    return None


def _from_text(text: str, now: float | None) -> float | None:
    if not text or len(text) > 64:
        return None
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return _clamp(float(text))
    return None if now is None else _from_date(text, now)


def _from_date(text: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime  # slow to import, seldom needed

    try:
        return _clamp(max(0.0, parsedate_to_datetime(text).timestamp() - now))
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def _clamp(seconds: float) -> float | None:
    if not seconds >= 0:
        return None
    return float(min(seconds, LONGEST_HINT))
