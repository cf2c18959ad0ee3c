"""Conversion between values and JSON text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from json import JSONDecoder, JSONEncoder
from math import isfinite
from typing import Any, ClassVar, NoReturn

from msgspec import MsgspecError
from msgspec.json import Decoder, Encoder

from redrive.errors import NotStorableError
from redrive.policy.codec.limits import (
    DEFAULT_LIMITS,
    FLATTEN,
    KEEP_ELSEWHERE,
    MAX_BITS,
    JsonLimits,
    JsonValue,
    Path,
    abbreviate,
    refuse,
    refuse_type,
    type_name,
)

ESCAPE = "␛"
ESCAPE_SPELLED_OUT = "\\u241"
NUL_SPELLED_OUT = "\\u0000"
ESCAPED = r"␛(0000|005c|241b|d[89a-f][0-9a-f]{2})"
LARGE_INTEGER = r"␛int(-?[1-9][0-9]{18,616})"
MAX_NUMBER_LENGTH = 4_000
_LEAVES = frozenset({bool, type(None)})

_ENCODER = Encoder()
_SORTED = JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), sort_keys=True
)


def encode(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> str:
    text = plain_text(value, limits=limits)
    if text is not None:
        return text
    return _checked(_ENCODER.encode(_Escaping(limits).value(value, ())).decode(), limits)


def canonical(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> str:
    """Encode with sorted keys: equal values give equal text, whatever the order of their keys."""
    plain = plain_text(value, limits=limits) is not None
    return _checked(_SORTED.encode(value if plain else _Escaping(limits).value(value, ())), limits)


def plain_text(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> str | None:
    """Return the text of a value that needs no escapes and is within the limits; None for other values."""
    if not _is_plain(value, limits):
        return None
    try:
        text = _ENCODER.encode(value).decode()
    except ValueError:  # a lone surrogate
        return None
    if NUL_SPELLED_OUT in text or ESCAPE in text or _is_too_large(text, limits):
        return None
    return text


def _is_too_large(text: str, limits: JsonLimits) -> bool:
    return 4 * len(text) > limits.size and len(text.encode()) > limits.size


def _checked(text: str, limits: JsonLimits) -> str:
    if _is_too_large(text, limits):
        size = len(text.encode())
        refuse((), f"is {size:,} bytes as JSON, over the limit of {limits.size:,}", KEEP_ELSEWHERE)
    return text


def _is_plain(value: object, limits: JsonLimits) -> bool:
    """Return whether a value has only JSON types and is within the limits. One flat loop, for speed."""
    level: Iterable[Any] = (value,)
    depth, items, size = limits.depth, limits.items, limits.size
    while True:
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size -= len(item)
            elif kind is int:
                if not -0x8000_0000_0000_0000 <= item <= 0x7FFF_FFFF_FFFF_FFFF:
                    return False
            elif kind is dict:
                deeper += item.values()
                if len(deeper) > items:
                    return False
                for key in item:
                    if type(key) is not str:
                        return False
                    size -= len(key)
            elif kind is list:
                deeper += item
                if len(deeper) > items:
                    return False
            elif kind is float:
                if not isfinite(item):
                    return False
            elif kind not in _LEAVES:
                return False
        if not deeper or size < 0 or depth == 0:
            return not deeper and size >= 0
        depth -= 1
        items -= len(deeper)
        level = deeper


class _Escaping:
    """The slow encoder: escapes what can be escaped, and rejects other values with their path."""

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._items = limits.items
        self._size = limits.size

    def value(self, value: object, path: Path) -> JsonValue:
        if len(path) > self._limits.depth:
            refuse(path, f"is nested deeper than {self._limits.depth} levels", FLATTEN)
        write = self._WRITERS.get(type(value))
        if write is None:
            refuse_type(value, path)
        return write(self, value, path)

    def _same(self, value: JsonValue, path: Path) -> JsonValue:
        return value

    def _text(self, text: str, path: Path) -> str:
        self._size -= len(text)
        if self._size < 0:
            refuse(path, f"makes the value exceed the limit of {self._limits.size:,} bytes", KEEP_ELSEWHERE)
        return text.translate(_escapes()).replace(NUL_SPELLED_OUT, f"{ESCAPE}005cu0000")

    def _integer(self, number: int, path: Path) -> JsonValue:
        bits = number.bit_length()
        if bits > MAX_BITS:
            refuse(
                path,
                f"is an integer of {bits:,} bits, over the limit of {MAX_BITS:,}",
                "store hex(value)",
            )
        return number if -(2**63) <= number < 2**63 else f"{ESCAPE}int{number}"

    def _float(self, number: float, path: Path) -> float:
        if not isfinite(number):
            refuse(path, f"is {number}, which JSON numbers cannot represent", "store None or text")
        return number

    def _list(self, values: Sequence[object], path: Path) -> list[JsonValue]:
        self._count(len(values), path)
        return [self.value(item, (*path, index)) for index, item in enumerate(values)]

    def _dict(self, entries: dict[object, object], path: Path) -> dict[str, JsonValue]:
        self._count(len(entries), path)
        return {self._key(key, path): self.value(item, (*path, str(key))) for key, item in entries.items()}

    def _key(self, key: object, path: Path) -> str:
        if type(key) is not str:
            refuse(
                path,
                f"has a key of type {type_name(type(key))}",
                'store str(key); note that 1 and "1" become the same key',
            )
        return self._text(key, (*path, key))

    def _count(self, items: int, path: Path) -> None:
        self._items -= items
        if self._items < 0:
            refuse(path, f"makes the value exceed the limit of {self._limits.items:,} items", KEEP_ELSEWHERE)

    _WRITERS: ClassVar[dict[type, Callable[..., JsonValue]]] = {
        type(None): _same,
        bool: _same,
        str: _text,
        int: _integer,
        float: _float,
        list: _list,
        tuple: _list,
        dict: _dict,
    }


@cache  # built on first use, like the patterns, so that `import redrive` stays fast
def _escapes() -> dict[int, str]:
    return {code: f"{ESCAPE}{code:04x}" for code in (0, ord(ESCAPE), *range(0xD800, 0xE000))}


def decode(text: str) -> JsonValue:
    try:
        decoder = _DECODER if len(text) <= MAX_NUMBER_LENGTH else _GUARDED_DECODER
        value: JsonValue = decoder.decode(text)
        return _unescaped(value) if has_escapes(text) else value
    except NotStorableError:
        raise
    except RecursionError:
        raise NotStorableError("the text is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"the text is not JSON: {error}") from None


def decode_stored(text: str) -> JsonValue:
    """Decode text written by `encode`, several times faster than `decode`.

    It also handles other text, but less strictly: the last value of a repeated key wins.
    """
    try:
        if not has_escapes(text):
            value: JsonValue = _STORED_DECODER.decode(text)
            return value
    except UNREADABLE:
        pass  # `decode` reads it, or reports what is wrong
    return decode(text)


def has_escapes(text: str) -> bool:
    """Return whether text may hold escapes of `encode`, which only `decode` resolves."""
    return ESCAPE in text or ESCAPE_SPELLED_OUT in text


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotStorableError(
            f"the stored text contains the key {abbreviate(ascii(key))} twice; remove one of them"
        )
    return entries


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotStorableError(f"the stored text contains a number that is too large: {abbreviate(text)}")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise NotStorableError(f"the stored text contains a number of {len(text):,} digits; store it as text")
    return int(text)


def _constant(text: str) -> NoReturn:
    raise NotStorableError(f"the stored text contains {text}, which is not JSON")


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
_GUARDED_DECODER = JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant, parse_int=_integer
)


_STORED_DECODER = Decoder()
UNREADABLE = (MsgspecError, RecursionError, TypeError, ValueError)
"""The errors that msgspec decoders raise about invalid text, or about a value that is not text."""


def _unescaped(value: JsonValue) -> JsonValue:
    if type(value) is str:
        large = re.fullmatch(LARGE_INTEGER, value)
        return int(large[1]) if large else _unescaped_text(value)
    if type(value) is list:
        return [_unescaped(item) for item in value]
    if type(value) is dict:
        return _object([(_unescaped_text(key), _unescaped(item)) for key, item in value.items()])
    return value


def _unescaped_text(text: str) -> str:
    return re.sub(ESCAPED, lambda match: chr(int(match[1], 16)), text)
