"""Durations: public methods take seconds or a timedelta; internally, every duration is in seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

Seconds: TypeAlias = float | timedelta
"""The type of every public parameter that is a duration."""


def to_seconds(duration: Seconds) -> float:
    """Convert a duration to seconds. `require_seconds` in `policy` also checks the bounds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
