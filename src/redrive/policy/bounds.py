"""Checks of what a person chooses. A wrong choice is refused where it is made, with what is allowed."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from redrive.errors import InvalidValueError

Choice = TypeVar("Choice", bound=StrEnum)

MAX_DELAY_SECONDS = 365 * 86_400.0
"""No wait is longer: the cap of a backoff that names none, so that no attempt number can overflow."""


def require(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is no number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidValueError(
            f"{name} must be a number from {_plain(low)} to {_plain(high)}, got {value!r}"
        )


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is no whole number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidValueError(f"{name} must be a whole number from {low:,} to {high:,}, got {value!r}")


def require_kind(name: str, value: object, *kinds: type) -> None:
    """Refuse what is of another type."""
    if not isinstance(value, kinds):
        allowed = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidValueError(f"{name} must be of type {allowed}, got {value!r}")


def choice(name: str, value: str, choices: type[Choice]) -> Choice:
    """The member of that name, also when its word was given as a string."""
    try:
        return choices(value)
    except ValueError:
        for each in choices:
            if each.value.lower() == str(value).lower():
                return each
        words = ", ".join(repr(each.value) for each in choices)
        raise InvalidValueError(f"{name} must be one of {words}, got {value!r}") from None


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:,.0f}"
