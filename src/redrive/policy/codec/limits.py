"""The limits of stored values, and the messages about rejected ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from redrive.errors import InvalidValueError, NotStorableError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Path: TypeAlias = "tuple[str | int, ...]"

MAX_BITS = 2_048  # 617 digits; no setting of the interpreter refuses to convert that many


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """The limits of a stored value: bytes of UTF-8, levels of nesting, entries of all lists and dicts."""

    size: int = 1_048_576
    depth: int = 64
    items: int = 100_000

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            if not low <= getattr(self, name) <= high:
                raise InvalidValueError(f"{name} is {getattr(self, name)!r}; allowed is {low:,} to {high:,}")


_BOUNDS = (("size", 1_024, 268_435_456), ("depth", 1, 100), ("items", 1, 10_000_000))
DEFAULT_LIMITS = JsonLimits()


KEEP_ELSEWHERE = "keep large data elsewhere and store a reference to it"
FLATTEN = "flatten it, or remove the cycle if it contains itself"
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


def refuse(path: Path, problem: str, advice: str) -> NoReturn:
    steps = (f".{step}" if str(step).isidentifier() else f"[{abbreviate(ascii(step))}]" for step in path)
    raise NotStorableError(f"{truncate('$' + ''.join(steps), 200)} {problem}; {advice}")


def refuse_type(value: object, path: Path) -> NoReturn:
    names = [type_name(kind) for kind in type.__dict__["__mro__"].__get__(type(value))]
    advice = next((_ADVICE[name] for name in names if name in _ADVICE), _ADVICE["object"])
    refuse(path, f"is of type {names[0]}, which JSON cannot store without changing it", f"store {advice}")


def type_name(kind: type) -> str:
    """Read the name through `type`, because a metaclass may return anything or raise."""
    return str(type.__dict__["__name__"].__get__(kind))[:100]


def abbreviate(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def truncate(text: str, length: int) -> str:
    """Keep the head and the tail of a long text, with the number of omitted characters between them."""
    omitted, tail = len(text) - length, length // 2
    if omitted <= 0:
        return text
    return f"{text[: length - tail]}… {omitted:,} characters left out …{text[len(text) - tail :]}"
