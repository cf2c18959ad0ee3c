"""What may be stored, and the signs by which peculiar values are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from redrive.errors import InvalidValueError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Path: TypeAlias = "tuple[str | int, ...]"

ESCAPE = "␛"
ESCAPE_SPELLED_OUT = "\\u241"
NUL_SPELLED_OUT = "\\u0000"
ESCAPED = r"␛(0000|005c|241b|d[89a-f][0-9a-f]{2})"
LARGE_INTEGER = r"␛int(-?[1-9][0-9]{18,616})"
MAX_BITS = 2_048  # 617 digits; no setting of the interpreter refuses to convert that many
MAX_NUMBER_LENGTH = 4_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a stored value may be: bytes of UTF-8, levels of nesting, entries of all lists and dicts."""

    size: int = 1_048_576
    depth: int = 64
    items: int = 100_000

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            if not low <= getattr(self, name) <= high:
                raise InvalidValueError(f"{name} is {getattr(self, name)!r}; allowed is {low:,} to {high:,}")


_BOUNDS = (("size", 1_024, 268_435_456), ("depth", 1, 100), ("items", 1, 10_000_000))
DEFAULT_LIMITS = Limits()
