"""Walk through a value: copy JSON-like structures and mark the secrets in them.

The value is untrusted: it may be deep, contain itself, share one part a million times, and the methods of its
classes may do anything. Subclasses are therefore read through the methods of their built-in base.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final, NamedTuple

from redrive.policy.redact.marker import CYCLE, MARKER, TOO_DEEP, UNPRINTABLE, Marker
from redrive.policy.redact.names import SecretName, SecretNames
from redrive.policy.redact.patterns import is_card, looks_random

MAX_DEPTH: Final = 64

_LABELS = frozenset({"name", "key", "header", "field", "param", "loc"})
_LABELLED = frozenset({"value", "input", "input_value"})
_SCALARS = frozenset({int, float, bool, type(None)})
_PLAIN = _SCALARS | {str, bytes, dict, list, tuple}
_FLAG = re.compile(r"--?[A-Za-z][\w.\-]*")
_ORDINARY_KEY = re.compile(r"[\w.\- ]{1,64}")
_MAX_KEYS = 1_024
_CARDS = range(10**11, 10**19)


class Key(NamedTuple):
    """A key as stored, the secret that it names, and whether it labels a value or is labeled."""

    stored: Any
    name: SecretName | None
    is_label: bool
    is_labelled: bool


class Walk:
    """One walk. Afterwards, `changed` is True if anything was replaced. `keys` caches keys across walks."""

    def __init__(
        self, names: SecretNames, mark: Marker, text: Callable[[str, int], str], keys: dict[str, Key]
    ) -> None:
        self.changed = False
        self._keys = keys
        self._names = names
        self._mark = mark
        self._redacted_text = text
        self._path: set[int] = set()
        self._done: dict[tuple[int, int, SecretName | None, bool], tuple[Any, Any]] = {}

    def value(self, value: Any, depth: int, name: SecretName | None = None, in_list: bool = False) -> Any:
        plain = _plain(value)
        if name and _is_secret(plain, name):
            return self._marked(name.kind, plain)
        if type(plain) in (dict, list, tuple):
            return self._container(value, plain, depth, name, in_list)
        return self._leaf(plain, depth)

    def _marked(self, kind: str, secret: Any) -> str:
        self.changed = True
        return self._mark(kind, secret if type(secret) in (str, bytes, int, float) else None)

    def _leaf(self, plain: Any, depth: int) -> Any:
        if type(plain) is str:
            return self._text(plain, depth)
        if type(plain) is bytes:
            text = plain.decode("utf-8", "surrogateescape")
            redacted = self._text(text, depth)
            return plain if redacted == text else redacted.encode("utf-8", "surrogatepass")
        if type(plain) is int and plain in _CARDS and is_card(str(plain)):
            return self._marked("card", plain)
        return plain

    def _text(self, text: str, depth: int) -> str:
        redacted = self._redacted_text(text, depth)
        self.changed = self.changed or redacted != text
        return redacted

    def _container(self, value: Any, plain: Any, depth: int, name: SecretName | None, in_list: bool) -> Any:
        if id(value) in self._path or depth >= MAX_DEPTH:
            self.changed = True
            return CYCLE if id(value) in self._path else TOO_DEEP
        # A shared part is walked once. The cache holds the value too, so that its id is not reused.
        place = (id(value), depth, name, in_list)
        if place not in self._done:
            self._path.add(id(value))
            self._done[place] = value, self._copied(value, plain, depth, name, in_list)
            self._path.discard(id(value))
        return self._done[place][1]

    def _copied(self, value: Any, plain: Any, depth: int, name: SecretName | None, in_list: bool) -> Any:
        if type(plain) is dict:
            return self._mapping(list(plain.items()), depth)
        item_names = repeat(name) if name else self._item_names(type(value), plain, in_list)
        pairs = zip(plain, item_names, strict=False)
        items = [self.value(item, depth + 1, own, in_list=True) for item, own in pairs]
        return items if type(plain) is list else tuple(items)

    def _item_names(self, kind: type, items: Any, in_list: bool) -> Iterator[SecretName | None]:
        """Yield the secret names of items: [name, value] within a list, or `--name` before its value."""
        if fields := _fields(kind):
            yield from map(self._name, fields)
        if in_list and len(items) == 2:
            yield from (None, self._name(items[0]))
        yield None
        for item in items:
            yield self._name(item) if type(item) is str and _FLAG.fullmatch(item) else None

    def _mapping(self, items: list[tuple[Any, Any]], depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        taken: dict[Any, int] = {}
        keys = [self._key(key, depth) for key, _ in items]
        label = self._label([item for key, (_, item) in zip(keys, items, strict=True) if key.is_label])
        for key, (_, item) in zip(keys, items, strict=True):
            name = key.name or (label if key.is_labelled else None)
            result[_unused(key.stored, result, taken)] = self.value(item, depth + 1, name)
        return result

    def _label(self, labels: list[Any]) -> SecretName | None:
        """Return the secret name in a labeled value such as {"name": "DB_PASSWORD", "value": …}."""
        lasts = [item[-1] if type(item) in (list, tuple) and item else item for item in labels]
        return next(filter(None, map(self._name, lasts)), None)

    def _key(self, key: Any, depth: int) -> Key:
        known = self._keys.get(key) if type(key) is str else None
        if known is None:
            known = self._read_key(key, depth)
            # An ordinary key is not JSON, so it is stored the same at any depth.
            if type(key) is str and known.stored == key and _ORDINARY_KEY.fullmatch(key):
                if len(self._keys) >= _MAX_KEYS:
                    self._keys.clear()
                self._keys[key] = known
        return known

    def _read_key(self, key: Any, depth: int) -> Key:
        word = key.lower() if type(key) is str else ""
        return Key(self._stored_key(key, depth), self._name(key), word in _LABELS, word in _LABELLED)

    def _stored_key(self, key: Any, depth: int) -> Any:
        plain = _plain(key)
        if type(plain) is tuple and depth < MAX_DEPTH:
            return tuple(self._stored_key(part, depth + 1) for part in plain)
        return self._leaf(str(plain) if type(plain) in (dict, list, tuple) else plain, depth)

    def _name(self, key: Any) -> SecretName | None:
        if type(key) is bytes:
            key = key.decode("utf-8", "replace")
        if type(key) is not str:
            return None
        # Check the name as it will be stored; otherwise redacting again could give another result.
        return self._names.find(MARKER.sub(" ", self._redacted_text(key, MAX_DEPTH)))


def _plain(value: Any) -> Any:
    """Convert the value to a built-in type; a value that is not JSON-like becomes its repr."""
    try:
        return value if type(value) in _PLAIN else _converted(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a hostile __repr__ may raise anything
        return UNPRINTABLE


def _converted(value: Any) -> Any:
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int | float):
        return int.__index__(value) if issubclass(kind, int) else float.__float__(value)
    if issubclass(kind, dict):
        return dict(dict.items(value))
    if issubclass(kind, list | tuple):
        return list(list.__iter__(value)) if issubclass(kind, list) else tuple(tuple.__iter__(value))
    if issubclass(kind, bytes | bytearray):
        return bytes(memoryview(value))
    return dict(value) if issubclass(kind, Mapping) else str.__str__(repr(value))


def _fields(kind: type) -> tuple[str, ...]:
    """Return the field names of a named tuple."""
    fields = vars(kind).get("_fields") if issubclass(kind, tuple) and kind is not tuple else None
    return fields if type(fields) is tuple else ()


def _is_secret(plain: Any, name: SecretName) -> bool:
    if plain is None or type(plain) is bool or (type(plain) not in _SCALARS and len(plain) == 0):
        return False
    if type(plain) is str:
        return MARKER.fullmatch(plain) is None and (not name.random_only or looks_random(plain))
    return not name.text_only or type(plain) is bytes


def _unused(key: Any, result: dict[Any, Any], taken: dict[Any, int]) -> Any:
    """Number keys that would become the same marker, so that no value is lost."""
    candidate = key
    while candidate in result:
        taken[key] = taken.get(key, 1) + 1
        candidate = f"{key}#{taken[key]}"
    return candidate
