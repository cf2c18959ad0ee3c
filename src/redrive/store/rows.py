"""Conversion between table columns and the classes of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from redrive.errors import NotStorableError
from redrive.model.decision import NO_FACTS, DecisionFacts
from redrive.model.fact import Fact, read_fact
from redrive.model.field import Meaning
from redrive.model.row import Row
from redrive.policy.codec import JsonValue, decode_stored

R = TypeVar("R", bound=Row)
Convert = Callable[[Any], Any]
Reader = Callable[[Iterable[Sequence[Any]]], list[Any]]


def read_row(row_class: type[R], values: Sequence[Any]) -> R:
    """Build an object from its column values: text becomes an enum, 0 and 1 a bool, JSON text its value.

    An unknown enum value stays text, because a newer version may have written it.
    """
    return read_rows(row_class, (values,))[0]


def read_rows(row_class: type[R], rows: Iterable[Sequence[Any]]) -> list[R]:
    nouns: list[R] = _reader(row_class)(rows)
    return nouns


def columns_of(row: Row) -> list[Any]:
    """Return the column values of a row without JSON, the inverse of `read_row`."""
    return [value.value if isinstance(value, Enum) else value for value in msgspec.structs.astuple(row)]


@cache
def _reader(row_class: type[Row]) -> Reader:
    names, hints = row_class.__struct_fields__, get_type_hints(row_class, include_extras=True)
    conversions = {name: _conversion(hints[name]) for name in names}
    kinds = {parameter.kind for parameter in signature(row_class).parameters.values()}
    if Parameter.KEYWORD_ONLY in kinds:
        return _reader_by_name(row_class, conversions)
    convert_at = [(at, convert) for at, convert in enumerate(conversions.values()) if convert is not None]

    def read(rows: Iterable[Sequence[Any]]) -> list[Any]:
        nouns = []
        for values in rows:
            fields = list(values)
            for at, convert in convert_at:
                fields[at] = convert(fields[at])
            nouns.append(row_class(*fields))
        return nouns

    return read


def _reader_by_name(row_class: type[Row], conversions: Mapping[str, Convert | None]) -> Reader:
    """Generate a function that builds objects of a class, which is faster than a dict per row."""
    known: dict[str, Any] = {"row_class": row_class}
    arguments = []
    for name, convert in conversions.items():
        known[f"convert_{name}"] = convert
        arguments.append(f"{name}={name}" if convert is None else f"{name}=convert_{name}({name})")
    text = f"lambda rows: [row_class({', '.join(arguments)}) for {', '.join(conversions)}, in rows]"
    reader: Reader = eval(text, known)  # noqa: S307 - field names only, no user input
    return reader


class _Members(dict[Any, Any]):
    """The members of an enum by value. Unknown values map to themselves."""

    def __missing__(self, value: Any) -> Any:
        return value


def _conversion(annotation: Any) -> Convert | None:
    if get_origin(annotation) is Annotated:
        kind, *details = get_args(annotation)
        meanings = [detail for detail in details if isinstance(detail, Meaning)]
        return _BY_MEANING.get(meanings[0]) if meanings else _conversion(kind)
    if get_origin(annotation) in (Union, UnionType):
        kinds = [_conversion(part) for part in get_args(annotation) if part is not type(None)]
        return next((kind for kind in kinds if kind is not None), None)
    if annotation is bool:
        return bool
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _Members(annotation._value2member_map_).__getitem__
    return _FACTS.get(annotation)


# JSON stored as text. The rest of a row must be readable even if its JSON is damaged.


UNREADABLE: Final = {"$unreadable": "it was damaged or changed after it was stored"}


def _value(text: str | None) -> JsonValue:
    if text is None:
        return None
    try:
        return decode_stored(text)
    except NotStorableError:
        return dict(UNREADABLE)


def _strings(text: str | None) -> tuple[str, ...]:
    value = _value(text)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _object(text: str | None) -> dict[str, JsonValue]:
    value = _value(text)
    return value if isinstance(value, dict) else {}


def read_decision(text: str) -> DecisionFacts:
    try:
        return _DECISION.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return NO_FACTS


_DECISION = msgspec.json.Decoder(DecisionFacts)


def _fact(text: str | None) -> Fact | None:
    return read_fact(text) if text else None


_FACTS: dict[Any, Convert] = {DecisionFacts: read_decision, Fact: _fact}

_BY_MEANING: dict[Meaning, Convert] = {
    Meaning.JSON: _value,
    Meaning.JSON_LIST: _strings,
    Meaning.JSON_OBJECT: _object,
}
