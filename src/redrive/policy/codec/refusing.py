"""Saying no: where in the value, what is wrong, and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from redrive.errors import NotStorableError
from redrive.policy.codec.limits import Path

KEEP_ELSEWHERE = "keep large data elsewhere and store a reference to it"
FLATTEN = "flatten it, or break the cycle if it contains itself"
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
    raise NotStorableError(f"{_written(path)} {problem}; {advice}")


def refuse_type(value: object, path: Path) -> NoReturn:
    names = [type_name(kind) for kind in type.__dict__["__mro__"].__get__(type(value))]
    advice = next((_ADVICE[name] for name in names if name in _ADVICE), _ADVICE["object"])
    refuse(path, f"is of type {names[0]} and would come back as something else", f"store {advice}")


def type_name(kind: type) -> str:
    """The name, asked of `type` itself: a metaclass may answer with anything, or raise."""
    return str(type.__dict__["__name__"].__get__(kind))[:100]


def _written(path: Path) -> str:
    steps = (f".{step}" if str(step).isidentifier() else f"[{shown(ascii(step))}]" for step in path)
    return cut("$" + "".join(steps), 200)


def shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def cut(text: str, length: int) -> str:
    """The head and the tail of a text that is too long, and between them how much was left out."""
    omitted, tail = len(text) - length, length // 2
    if omitted <= 0:
        return text
    return f"{text[: length - tail]}… {omitted:,} characters left out …{text[len(text) - tail :]}"
