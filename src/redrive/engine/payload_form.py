"""The payload of a task as fields to fill in: derived from the types of its parameters.

A task whose payload has no known fields, such as one without annotations, has the payload as its only field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from inspect import Parameter
from typing import Any, NamedTuple

from msgspec import NODEFAULT, UNSET, inspect

from redrive.engine.payload import is_untyped, to_json
from redrive.engine.signature import Signature
from redrive.errors import RedriveError

_WHOLE = "payload"


class FieldKind(StrEnum):
    """The input of a field. A `choice` has its values, `json` takes any JSON."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    JSON = "json"


class FormField(NamedTuple):
    """A field of a payload.

    name     in the form: `payload.country`, or `payload` for the whole payload
    label    for people
    value    the default, as it appears in the input
    """

    name: str
    label: str
    kind: FieldKind
    required: bool
    value: str = ""
    choices: Sequence[str] = ()


def payload_form(signature: Signature) -> Sequence[FormField]:
    """Return the fields of the payload, in order; none if the task takes no payload."""
    parameters = list(signature.called_with.parameters.values())
    if len(parameters) == 1:
        [parameter] = parameters
        members = _members(parameter.annotation)
        return members or [_field(_WHOLE, parameter.name, parameter.annotation, parameter.default)]
    return [
        _field(f"{_WHOLE}.{parameter.name}", parameter.name, parameter.annotation, parameter.default)
        for parameter in parameters
    ]


def _members(annotation: object) -> Sequence[FormField]:
    """Return the fields of a dataclass, TypedDict or Struct; none for any other type."""
    found = _type_of(annotation)
    if not isinstance(found, inspect.DataclassType | inspect.TypedDictType | inspect.StructType):
        return ()
    if any("." in field.encode_name for field in found.fields):
        return ()
    return [
        _member(f"{_WHOLE}.{field.encode_name}", field.encode_name, field.type, field.required, field.default)
        for field in found.fields
    ]


def _field(name: str, label: str, annotation: object, default: object) -> FormField:
    required = default is Parameter.empty
    return _member(name, label, _type_of(annotation), required, NODEFAULT if required else default)


def _type_of(annotation: object) -> inspect.Type:
    if is_untyped(annotation):
        return inspect.AnyType()
    try:
        return inspect.type_info(annotation)
    except TypeError:  # a class of another library, or a name that could not be resolved
        return inspect.AnyType()


def _member(name: str, label: str, found: inspect.Type, required: bool, default: object) -> FormField:
    kind, choices = _kind_of(_without_null(found))
    return FormField(name, label, kind, required, _text_of(default, kind), choices)


def _without_null(found: inspect.Type) -> inspect.Type:
    """Return the only other type of a union with null; other unions can hold any JSON."""
    if not isinstance(found, inspect.UnionType):
        return found
    parts = [part for part in found.types if not isinstance(part, inspect.NoneType)]
    return parts[0] if len(parts) == 1 else inspect.AnyType()


def _kind_of(found: inspect.Type) -> tuple[FieldKind, Sequence[str]]:
    match found:
        case inspect.BoolType():
            return FieldKind.BOOLEAN, ()
        case inspect.IntType():
            return FieldKind.INTEGER, ()
        case inspect.FloatType():
            return FieldKind.NUMBER, ()
        case inspect.LiteralType(values=values):
            return _choice(values)
        case inspect.EnumType(cls=cls):
            return _choice(member.value for member in cls)
        case inspect.StrType() | inspect.UUIDType() | inspect.DateType() | inspect.DateTimeType():
            return FieldKind.TEXT, ()
        case inspect.TimeType() | inspect.DecimalType() | inspect.BytesType():
            return FieldKind.TEXT, ()
    return FieldKind.JSON, ()


def _choice(values: Iterable[Any]) -> tuple[FieldKind, Sequence[str]]:
    known = list(values)
    return (
        (FieldKind.CHOICE, known) if all(isinstance(value, str) for value in known) else (FieldKind.JSON, ())
    )


def _text_of(default: object, kind: FieldKind) -> str:
    """Write a default for its input; a default that JSON can't hold is left to the task."""
    if default in (NODEFAULT, UNSET, None):
        return ""
    try:
        value = to_json(default)
    except RedriveError:
        return ""
    return value if isinstance(value, str) and kind != FieldKind.JSON else json.dumps(value)
