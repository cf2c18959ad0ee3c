"""Bounds of numbers that a person chooses."""

from __future__ import annotations

from redrive.errors import InvalidValueError

LONGEST_DELAY = 365 * 86_400.0
"""No wait is longer: the cap of a backoff that names none, so that no attempt number can overflow."""


def require(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is no number between the bounds; the message names them."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidValueError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is no whole number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
