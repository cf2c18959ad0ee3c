"""Convert any object to a storable value, for failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import isfinite
from typing import Any, ClassVar

from redrive.errors import NotStorableError
from redrive.policy.codec.limits import DEFAULT_LIMITS, MAX_BITS, JsonLimits, JsonValue, truncate, type_name
from redrive.policy.codec.text import decode_stored, encode

_LOST = "<not storable>"
_SQUEEZES = 12
_ORDERED = ({int}, {str})


def storable(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
    """Return a description of `value` that `encode` accepts under the same limits. Never raises."""
    try:
        return _salvaged(value, limits)
    except Exception:  # noqa: BLE001 — memory or stack may run out; storing a failure must not fail even so
        return _LOST


class _Overflow(Exception):  # noqa: N818 — not an error: it asks for the next, tighter attempt
    pass


def _salvaged(value: object, limits: JsonLimits) -> JsonValue:
    """Return the whole value if it can be stored, otherwise as much of it as fits."""
    for squeeze in range(-1, _SQUEEZES):
        try:
            kept = value if squeeze < 0 else _Salvage(limits, squeeze).value(value, 0)
            return decode_stored(encode(kept, limits=limits))
        except (_Overflow, NotStorableError):
            continue
    return f"<{type_name(type(value))}: too large to keep any of it>"


class _Salvage:
    """One attempt to make a value storable; a higher `squeeze` keeps less text, fewer items and levels."""

    def __init__(self, limits: JsonLimits, squeeze: int) -> None:
        self._text_length = max(limits.size >> 1 + 2 * squeeze, 24)
        self._width = max(limits.items >> 2 * squeeze, 3)
        self._depth = max(limits.depth >> max(squeeze - 4, 0), 1)
        self._room = limits.size
        self._items = limits.items
        self._open: set[int] = set()

    def value(self, value: object, depth: int) -> JsonValue:
        kind = type(value)
        if value is None or value is True or value is False:
            return value
        for base, keep in self._KEEPERS:
            if issubclass(kind, base):
                return keep(self, value, depth)
        return self._text(_description(value))

    def _string(self, text: str, depth: int) -> str:
        return self._text(str.__str__(text))

    def _text(self, text: str) -> str:
        kept = truncate(text, self._text_length)
        self._room -= len(kept)
        if self._room < 0:
            raise _Overflow
        return kept

    def _integer(self, number: int, depth: int) -> JsonValue:
        bits = int.bit_length(number)
        return int.__pos__(number) if bits <= MAX_BITS else f"<integer of {bits:,} bits>"

    def _float(self, number: float, depth: int) -> JsonValue:
        plain = float.__pos__(number)
        return plain if isfinite(plain) else str(plain)

    def _container(self, values: object, depth: int) -> JsonValue:
        if id(values) in self._open:
            return f"<{type_name(type(values))}: contains itself>"
        if depth >= self._depth:
            return f"<{type_name(type(values))}: nested too deep>"
        self._open.add(id(values))
        keep: Callable[..., JsonValue] = self._dict if issubclass(type(values), dict) else self._list
        kept = keep(values, depth)
        self._open.discard(id(values))
        return kept

    def _list(self, container: object, depth: int) -> list[JsonValue]:
        values = _snapshot(container)
        omitted = len(values) - self._width
        if omitted <= 0:
            return self._all(values, depth)
        tail = self._width // 2
        head = self._all(values[: self._width - tail], depth)
        return [*head, f"… {omitted:,} items left out …", *self._all(values[len(values) - tail :], depth)]

    def _all(self, values: Sequence[object], depth: int) -> list[JsonValue]:
        self._count(len(values) + 1)
        return [self.value(item, depth + 1) for item in values]

    def _dict(self, entries: dict[object, object], depth: int) -> dict[str, JsonValue]:
        omitted = dict.__len__(entries) - self._width
        self._count(min(dict.__len__(entries), self._width) + 1)
        kept = _Names()
        for key, item in list(islice(dict.items(entries), self._width)):
            kept.add(self._key(key), self.value(item, depth + 1))
        if omitted > 0:
            kept.add("…", f"{omitted:,} entries left out")
        return kept.entries

    def _key(self, key: object) -> str:
        return self._text(str.__str__(key) if issubclass(type(key), str) else _description(key))

    def _count(self, items: int) -> None:
        self._items -= items
        if self._items < 0:
            raise _Overflow

    _KEEPERS: ClassVar[tuple[tuple[type | tuple[type, ...], Callable[..., JsonValue]], ...]] = (
        (str, _string),
        (int, _integer),
        (float, _float),
        ((dict, list, tuple, set, frozenset), _container),
    )


class _Names:
    """A dict that numbers keys of the same name instead of losing one."""

    def __init__(self) -> None:
        self.entries: dict[str, JsonValue] = {}
        self._repeats: dict[str, int] = {}

    def add(self, name: str, value: JsonValue) -> None:
        key = name
        while key in self.entries:
            self._repeats[name] = self._repeats.get(name, 1) + 1
            key = f"{name} ({self._repeats[name]})"
        self.entries[key] = value


def _snapshot(container: Any) -> Sequence[object]:
    """Read the items through the base type, because a subclass may iterate over anything or raise."""
    if issubclass(type(container), list):
        return list.copy(container)
    if issubclass(type(container), tuple):
        return tuple.__add__((), container)
    values = list((set if issubclass(type(container), set) else frozenset).__iter__(container))
    return sorted(values, key=None if {*map(type, values)} in _ORDERED else _rank)


def _rank(value: object) -> tuple[str, str]:
    return type_name(type(value)), truncate(_description(value), 200)


def _description(value: Any) -> str:
    kind = type(value)  # isinstance would read the value's __class__
    try:
        if issubclass(kind, bytes):
            return _bytes_text(value)
        text = str.__str__(str(value))
        return f"{type_name(kind)}: {text}" if issubclass(kind, BaseException) else text
    except BaseException as error:  # noqa: BLE001 — foreign code may raise anything
        return f"<{type_name(kind)}: its text raised {type_name(type(error))}>"


def _bytes_text(data: bytes) -> str:
    try:
        return bytes.decode(data)
    except UnicodeDecodeError:
        return bytes.__repr__(data)
