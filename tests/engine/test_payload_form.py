"""The form of a payload, from the types of a task's parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any, Literal, TypedDict

from tests.cases import loop_over

from redrive.engine.context import Context
from redrive.engine.payload_form import FieldKind, FormField, payload_form
from redrive.engine.signature import Signature


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Order:
    number: int
    country: str = "CH"
    express: bool = False
    weight: float | None = None
    due: date | None = None
    size: Literal["s", "m"] = "m"
    color: Color = Color.BLUE
    lines: list[str] = field(default_factory=list)


class Address(TypedDict):
    city: str


class Opaque:
    """Not a JSON type, so the form does not show such a default."""


def whole(order: Order) -> None: ...
def by_name(address: Address, note: str, times: int = 3, context: Any = None, config: Any = None) -> None: ...
def one(number: int) -> None: ...
def untyped(order, mark=Opaque()) -> None: ...  # type: ignore[no-untyped-def]  # noqa: B008
def nothing(context: Context) -> None: ...
def either(value: int | str) -> None: ...
def typed_dict(address: Address) -> None: ...


@loop_over(
    ("function", "fields"),
    [
        (
            whole,
            [
                FormField("payload.number", "number", FieldKind.INTEGER, True),
                FormField("payload.country", "country", FieldKind.TEXT, False, "CH"),
                FormField("payload.express", "express", FieldKind.BOOLEAN, False, "false"),
                FormField("payload.weight", "weight", FieldKind.NUMBER, False),
                FormField("payload.due", "due", FieldKind.TEXT, False),
                FormField("payload.size", "size", FieldKind.CHOICE, False, "m", ["m", "s"]),
                FormField("payload.color", "color", FieldKind.CHOICE, False, "blue", ["red", "blue"]),
                FormField("payload.lines", "lines", FieldKind.JSON, False),
            ],
        ),
        (
            by_name,
            [
                FormField("payload.address", "address", FieldKind.JSON, True),
                FormField("payload.note", "note", FieldKind.TEXT, True),
                FormField("payload.times", "times", FieldKind.INTEGER, False, "3"),
            ],
        ),
        (typed_dict, [FormField("payload.city", "city", FieldKind.TEXT, True)]),
        (one, [FormField("payload", "number", FieldKind.INTEGER, True)]),
        (either, [FormField("payload", "value", FieldKind.JSON, True)]),
        (
            untyped,
            [
                FormField("payload.order", "order", FieldKind.JSON, True),
                FormField("payload.mark", "mark", FieldKind.JSON, False),
            ],
        ),
        (nothing, []),
    ],
)
def test_the_fields_of(function: Callable[..., Any], fields: list[FormField]) -> None:
    assert list(payload_form(Signature.of(function, Context))) == fields
