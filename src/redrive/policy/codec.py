"""The gate before persistence: whatever Redrive stores is JSON text made here (decision 9).

Nothing changes silently on the way. A value comes back equal and of the same type, or `encode` refuses it
before anything is written, saying where it is, what is wrong and what to do. One exception: the tuple.

    None, bool, str, list, dict with str keys       stored as they are
    int within 64 bits, finite float                stored as they are
    NUL, lone surrogate or ␛, in a text or a key    escaped as ␛ and four hexadecimal digits, since PostgreSQL
                                                    cannot hold the first two; so is a spelled-out NUL escape
    int beyond 64 bits, up to 2,048 bits            kept as text after ␛int: SQLite and JavaScript round it
    tuple                                           stored as a list and comes back as one
    NaN, infinities, larger integers                refused
    keys that are not str                           refused: 1 and "1" would become one key
    subclasses: enums, named tuples, OrderedDict    refused: they would come back as their base type
    bytes, set, datetime, Decimal, UUID, others     refused, with the conversion to use
    too deep (cycles too), too large, too many      refused, see `Limits`

`decode` reads that text and any other JSON, except repeated keys, NaN, numbers that overflow and numbers of
more than 4,000 digits. It knows no `Limits`: lowering them must not make stored work unreadable.

A text or json column gives back what it got. PostgreSQL's jsonb does not: the float 1e16 becomes an integer.

`storable` is for failures. It takes anything at all and makes something of it that `encode` accepts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from json import JSONDecoder, JSONEncoder
from math import isfinite
from typing import Any, ClassVar, NoReturn, TypeAlias

from redrive.errors import InvalidValueError, NotStorableError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Path: TypeAlias = "tuple[str | int, ...]"


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


def encode(value: object, *, limits: Limits = DEFAULT_LIMITS) -> str:
    return _encode(value, limits, _COMPACT)


def canonical(value: object, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """As `encode`, with sorted keys: equal values give equal text, whatever the order of their keys."""
    return _encode(value, limits, _SORTED)


def decode(text: str) -> JsonValue:
    try:
        decoder = _DECODER if len(text) <= _LONGEST_NUMBER else _GUARDED_DECODER
        value: JsonValue = decoder.decode(text)
        return _unescaped(value) if _ESCAPE in text or _ESCAPE_SPELLED_OUT in text else value
    except NotStorableError:
        raise
    except RecursionError:
        raise NotStorableError("the stored text is nested too deep to be read") from None
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"the stored text is not JSON: {error}") from None


def storable(value: object, *, limits: Limits = DEFAULT_LIMITS) -> JsonValue:
    """Something that tells about `value` and that `encode` accepts under the same limits. Never raises."""
    try:
        return _salvaged(value, limits)
    except Exception:  # noqa: BLE001 — memory or stack may run out; storing a failure must not fail even so
        return _LOST


# Writing

_ESCAPE = "␛"
_ESCAPE_SPELLED_OUT = "\\u241"
_NUL_SPELLED_OUT = "\\u0000"
_ESCAPED = r"␛(0000|005c|241b|d[89a-f][0-9a-f]{2})"
_LARGE_INTEGER = r"␛int(-?[1-9][0-9]{18,616})"
_LARGEST_BITS = 2_048  # 617 digits; no setting of the interpreter refuses to convert that many
_LONGEST_NUMBER = 4_000
_LEAVES = frozenset({float, bool, type(None)})

_COMPACT, _SORTED = (
    JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), sort_keys=sort
    )
    for sort in (False, True)
)


def _encode(value: object, limits: Limits, encoder: JSONEncoder) -> str:
    text = _quick_text(value, limits, encoder)
    if text is None:
        text = encoder.encode(_Escaping(limits).value(value, ()))
    if 4 * len(text) > limits.size:
        _check_size(len(text.encode()), limits)
    return text


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.size:
        _refuse((), f"is {size:,} bytes as JSON, over the limit of {limits.size:,}", _KEEP_ELSEWHERE)


def _quick_text(value: object, limits: Limits, encoder: JSONEncoder) -> str | None:
    """The text of a value that has no peculiarities; None sends it the careful way."""
    if not _is_plain(value, limits):
        return None
    try:
        text = encoder.encode(value)
        if _NUL_SPELLED_OUT in text or not (text.isascii() or (_ESCAPE not in text and text.encode())):
            return None
        return text
    except ValueError:  # NaN, an infinity, a lone surrogate
        return None


def _is_plain(value: object, limits: Limits) -> bool:
    """JSON's own types only, and within the limits. One flat loop: the speed of `encode` is decided here."""
    level: list[Any] = [value]
    items, size = limits.items, limits.size
    for _ in range(limits.depth + 1):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size -= len(item)
            elif kind is dict:
                deeper += item.values()
                if len(deeper) > items:
                    return False
                for key in item:
                    if type(key) is not str:
                        return False
                    size -= len(key)
            elif kind is int:
                if not -0x8000_0000_0000_0000 <= item <= 0x7FFF_FFFF_FFFF_FFFF:
                    return False
            elif kind is list or kind is tuple:
                deeper += item
                if len(deeper) > items:
                    return False
            elif kind not in _LEAVES:
                return False
        if not deeper or size < 0:
            return size >= 0
        items -= len(deeper)
        level = deeper
    return False


class _Escaping:
    """The careful way: escapes what can be escaped, and refuses the rest with its path."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items = limits.items
        self._size = limits.size

    def value(self, value: object, path: Path) -> JsonValue:
        if len(path) > self._limits.depth:
            _refuse(path, f"is nested deeper than {self._limits.depth} levels", _FLATTEN)
        write = self._WRITERS.get(type(value))
        if write is None:
            _refuse_type(value, path)
        return write(self, value, path)

    def _same(self, value: JsonValue, path: Path) -> JsonValue:
        return value

    def _text(self, text: str, path: Path) -> str:
        self._size -= len(text)
        if self._size < 0:
            _refuse(path, f"takes the value over the limit of {self._limits.size:,} bytes", _KEEP_ELSEWHERE)
        return text.translate(_escapes()).replace(_NUL_SPELLED_OUT, f"{_ESCAPE}005cu0000")

    def _integer(self, number: int, path: Path) -> JsonValue:
        bits = number.bit_length()
        if bits > _LARGEST_BITS:
            _refuse(
                path,
                f"is an integer of {bits:,} bits, over the limit of {_LARGEST_BITS:,}",
                "store hex(value)",
            )
        return number if -(2**63) <= number < 2**63 else f"{_ESCAPE}int{number}"

    def _float(self, number: float, path: Path) -> float:
        if not isfinite(number):
            _refuse(path, f"is {number}, which JSON has no number for", "store None or a text")
        return number

    def _list(self, values: Sequence[object], path: Path) -> list[JsonValue]:
        self._count(len(values), path)
        return [self.value(item, (*path, index)) for index, item in enumerate(values)]

    def _dict(self, entries: dict[object, object], path: Path) -> dict[str, JsonValue]:
        self._count(len(entries), path)
        return {self._key(key, path): self.value(item, (*path, str(key))) for key, item in entries.items()}

    def _key(self, key: object, path: Path) -> str:
        if type(key) is not str:
            _refuse(
                path, f"has a key of type {_name(type(key))}", 'store str(key), and mind that 1 and "1" meet'
            )
        return self._text(key, (*path, key))

    def _count(self, items: int, path: Path) -> None:
        self._items -= items
        if self._items < 0:
            _refuse(path, f"takes the value over the limit of {self._limits.items:,} items", _KEEP_ELSEWHERE)

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


@cache  # like the patterns, made when first needed: `import redrive` stays quick
def _escapes() -> dict[int, str]:
    return {code: f"{_ESCAPE}{code:04x}" for code in (0, ord(_ESCAPE), *range(0xD800, 0xE000))}


# Reading


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotStorableError(f"the stored text has the key {_shown(ascii(key))} twice; remove one of them")
    return entries


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotStorableError(f"the stored text has a number too large to be read: {_shown(text)}")
    return number


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise NotStorableError(f"the stored text has a number of {len(text):,} digits; keep it as text")
    return int(text)


def _constant(text: str) -> NoReturn:
    raise NotStorableError(f"the stored text has {text}, which is not JSON")


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
_GUARDED_DECODER = JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant, parse_int=_integer
)


def _unescaped(value: JsonValue) -> JsonValue:
    if type(value) is str:
        large = re.fullmatch(_LARGE_INTEGER, value)
        return int(large[1]) if large else _unescaped_text(value)
    if type(value) is list:
        return [_unescaped(item) for item in value]
    if type(value) is dict:
        return _object([(_unescaped_text(key), _unescaped(item)) for key, item in value.items()])
    return value


def _unescaped_text(text: str) -> str:
    return re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), text)


# Refusing

_KEEP_ELSEWHERE = "keep large data elsewhere and store a reference to it"
_FLATTEN = "flatten it, or break the cycle if it contains itself"
_ADVICE = {
    "datetime": "value.isoformat()",
    "date": "value.isoformat()",
    "time": "value.isoformat()",
    "timedelta": "value.total_seconds()",
    "Decimal": "str(value)",
    "UUID": "str(value)",
    "set": "sorted(value)",
    "frozenset": "sorted(value)",
    "bytes": "value.hex() or base64 text",
    "bytearray": "value.hex() or base64 text",
    "str": "str(value)",
    "int": "int(value)",
    "float": "float(value)",
    "dict": "dict(value)",
    "list": "list(value)",
    "tuple": "value._asdict() or list(value)",
    "Enum": "value.value",
    "BaseException": "str(value)",
    "object": "its fields as a dict of None, bool, int, float, str, list and dict",
}


def _refuse(path: Path, problem: str, advice: str) -> NoReturn:
    raise NotStorableError(f"{_written(path)} {problem}; {advice}")


def _refuse_type(value: object, path: Path) -> NoReturn:
    names = [_name(kind) for kind in type.__dict__["__mro__"].__get__(type(value))]
    advice = next((_ADVICE[name] for name in names if name in _ADVICE), _ADVICE["object"])
    _refuse(path, f"is of type {names[0]} and would come back as something else", f"store {advice}")


def _name(kind: type) -> str:
    """The name, asked of `type` itself: a metaclass may answer with anything, or raise."""
    return str(type.__dict__["__name__"].__get__(kind))[:100]


def _written(path: Path) -> str:
    steps = (f".{step}" if str(step).isidentifier() else f"[{_shown(ascii(step))}]" for step in path)
    return _cut("$" + "".join(steps), 200)


def _shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


# Salvaging

_LOST = "<not storable>"
_SQUEEZES = 12
_ORDERED = ({int}, {str})


class _Overflow(Exception):  # noqa: N818 — not an error: it asks for the next, tighter attempt
    pass


def _salvaged(value: object, limits: Limits) -> JsonValue:
    """The whole value if it can be kept, else as little less as fits."""
    for squeeze in range(-1, _SQUEEZES):
        try:
            kept = value if squeeze < 0 else _Salvage(limits, squeeze).value(value, 0)
            return decode(encode(kept, limits=limits))
        except (_Overflow, NotStorableError):
            continue
    return f"<{_name(type(value))}: too large to keep any of it>"


class _Salvage:
    """One attempt to make a value storable; a squeeze keeps less of texts and lists, in the end of levels."""

    def __init__(self, limits: Limits, squeeze: int) -> None:
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
        kept = _cut(text, self._text_length)
        self._room -= len(kept)
        if self._room < 0:
            raise _Overflow
        return kept

    def _integer(self, number: int, depth: int) -> JsonValue:
        bits = int.bit_length(number)
        return int.__pos__(number) if bits <= _LARGEST_BITS else f"<integer of {bits:,} bits>"

    def _float(self, number: float, depth: int) -> JsonValue:
        plain = float.__pos__(number)
        return plain if isfinite(plain) else str(plain)

    def _container(self, values: object, depth: int) -> JsonValue:
        if id(values) in self._open:
            return f"<{_name(type(values))}: contains itself>"
        if depth >= self._depth:
            return f"<{_name(type(values))}: nested too deep>"
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
    """A dict that gives keys of the same name a number instead of losing one."""

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
    """What is in it, read through the base type: a subclass may iterate over anything, or raise."""
    if issubclass(type(container), list):
        return list.copy(container)
    if issubclass(type(container), tuple):
        return tuple.__add__((), container)
    values = list((set if issubclass(type(container), set) else frozenset).__iter__(container))
    return sorted(values, key=None if {*map(type, values)} in _ORDERED else _rank)


def _rank(value: object) -> tuple[str, str]:
    return _name(type(value)), _cut(_description(value), 200)


def _description(value: Any) -> str:
    kind = type(value)  # isinstance would ask the value's own __class__
    try:
        if issubclass(kind, bytes):
            return _bytes_text(value)
        text = str.__str__(str(value))
        return f"{_name(kind)}: {text}" if issubclass(kind, BaseException) else text
    except BaseException as error:  # noqa: BLE001 — foreign code may raise anything
        return f"<{_name(kind)}: its text raised {_name(type(error))}>"


def _bytes_text(data: bytes) -> str:
    try:
        return bytes.decode(data)
    except UnicodeDecodeError:
        return bytes.__repr__(data)


def _cut(text: str, length: int) -> str:
    """The head and the tail of a text that is too long, and between them how much was left out."""
    omitted, tail = len(text) - length, length // 2
    if omitted <= 0:
        return text
    return f"{text[: length - tail]}… {omitted:,} characters left out …{text[len(text) - tail :]}"
