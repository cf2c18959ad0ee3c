"""Checks of configured values; the message of a rejected one says what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from redrive.duration import to_seconds
from redrive.errors import InvalidFieldError

Choice = TypeVar("Choice", bound=StrEnum)

MAX_DELAY_SECONDS = 365 * 86_400.0
"""The maximum wait: the cap of a backoff that sets none, so that no attempt number can overflow."""


def require(name: str, value: object, low: float, high: float) -> None:
    """Reject a value that is not a number between the bounds."""
    _require(name, value, low, high, "a number")


def require_seconds(name: str, value: Any, low: float, high: float) -> float:
    """Return a duration in seconds; reject one that is not between the bounds."""
    seconds = to_seconds(value)
    _require(name, seconds, low, high, "a number of seconds")
    return seconds


def _require(name: str, value: object, low: float, high: float, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidFieldError(name, f"must be {what} from {_plain(low)} to {_plain(high)}, got {value!r}")


def set_seconds(owner: object, name: str, low: float, high: float) -> None:
    """Convert a field of a frozen dataclass to seconds; reject a duration that is not between the bounds.

    The field is a float. For type checkers, the class declares an `__init__` that takes `Seconds`.
    """
    object.__setattr__(owner, name, require_seconds(name, getattr(owner, name), low, high))


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Reject a value that is not a whole number between the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidFieldError(name, f"must be a whole number from {low:,} to {high:,}, got {value!r}")


def require_kind(name: str, value: object, *kinds: type) -> None:
    """Reject a value of another type."""
    if not isinstance(value, kinds):
        allowed = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidFieldError(name, f"must be of type {allowed}, got {value!r}")


def require_list(name: str, value: object, items: str) -> None:
    """Reject a single value where a list is expected. `items` says what the list contains.

    Every iterable counts as a list, except text and mappings: their items are hardly ever meant.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        fix = f". For a single one, pass [{value!r:.80}]" if isinstance(value, str) else ""
        raise InvalidFieldError(name, f"must be a list of {items}, got {value!r:.80}{fix}")


def require_function(name: str, value: object) -> None:
    if not callable(value):
        raise InvalidFieldError(name, f"must be a function, got {value!r:.80}")


def choice(name: str, value: str, choices: type[Choice]) -> Choice:
    """Return the member of an enum for its word, in any case."""
    try:
        return choices(value)
    except ValueError:
        for member in choices:
            if member.value.lower() == str(value).lower():
                return member
        words = ", ".join(repr(member.value) for member in choices)
        raise InvalidFieldError(name, f"must be one of {words}, got {value!r}") from None


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:,.0f}"
