"""Durations that callers give: seconds or a timedelta. Inside, all durations are seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

Seconds: TypeAlias = float | timedelta
"""The type of every public parameter that is a duration."""


def to_seconds(duration: Seconds) -> float:
    """Return the duration in seconds. `require_seconds` in `policy` also checks its bounds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
