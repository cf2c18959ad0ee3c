"""What differs between two JSON values, told path by path."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from redrive.policy.codec import JsonValue

MAX_CHANGES = 200
NOTHING = "(nothing)"


class Difference(NamedTuple):
    """`path` is written as in `orders[2].amount`; empty for the value itself."""

    path: str
    before: JsonValue
    after: JsonValue


def differences(before: JsonValue, after: JsonValue, most: int = MAX_CHANGES) -> list[Difference]:
    """The smallest parts that differ, at most so many."""
    return list(islice(_walk("", before, after), most))


def _walk(path: str, before: JsonValue, after: JsonValue) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{path}.{key}" if path else str(key)
            yield from _walk(place, before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _walk(f"{path}[{index}]", _at(before, index), _at(after, index))
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)


def _at(values: list[JsonValue], index: int) -> JsonValue:
    return values[index] if index < len(values) else NOTHING
