"""Resources: schema and view follow the declaration of a class, of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import pytest

from redrive.model.field import Instant, Json, JsonList, JsonObject
from redrive.server.api.resource import Resource


class Color(StrEnum):
    RED = "red"


class Wheel(NamedTuple):
    size: int

    @property
    def is_large(self) -> bool:
        return self.size > 20


class Car(NamedTuple):
    plate: str
    wheel: Wheel


def owner(car: Car) -> str:
    return f"owner of {car.plate}"


class Engine(NamedTuple):
    power: int


class Boat(NamedTuple):
    engine: Engine


class Tuple(NamedTuple):
    """A thing.

    made_at  when it was made,
             if that is known; None: it is not
    """

    id: str
    secret: str
    color: Color
    made_at: Instant | None
    note: Json
    tags: JsonList
    detail: JsonObject
    wheels: tuple[Wheel, ...]
    spare: Wheel | None
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Dataclass:
    id: str
    secret: str
    color: Color
    made_at: Instant | None
    note: Json
    tags: JsonList
    detail: JsonObject
    wheels: tuple[Wheel, ...]
    spare: Wheel | None
    sizes: Mapping[str, int]


class Struct(msgspec.Struct, frozen=True):
    id: str
    secret: str
    color: Color
    made_at: Instant | None
    note: Json
    tags: JsonList
    detail: JsonObject
    wheels: tuple[Wheel, ...]
    spare: Wheel | None
    sizes: Mapping[str, int]


Resource(Wheel, "WheelShape")

VALUES: dict[str, Any] = {
    "id": "7",
    "secret": "hidden",
    "color": Color.RED,
    "made_at": 1_900_000_000.25,
    "note": {"a": [1, None]},
    "tags": ("x", "y"),
    "detail": {},
    "wheels": (Wheel(16), Wheel(28)),
    "spare": None,
    "sizes": {"front": 16},
}


@pytest.mark.parametrize("cls", [Tuple, Dataclass, Struct])
def test_the_view_follows_the_declared_types(cls: Any) -> None:
    resource = Resource(cls, "Thing", hidden=("secret",), renamed={"id": "number"})
    assert resource.view(cls(**VALUES)) == {
        "number": "7",
        "color": "red",
        "made_at": "2030-03-17T17:46:40.250Z",
        "note": {"a": [1, None]},
        "tags": ["x", "y"],
        "detail": {},
        "wheels": [{"size": 16}, {"size": 28}],
        "spare": None,
        "sizes": {"front": 16},
    }


@pytest.mark.parametrize("cls", [Tuple, Dataclass, Struct])
def test_the_schema_accepts_the_values_of_the_view(cls: Any) -> None:
    resource = Resource(cls, "Thing", hidden=("secret",))
    nothing = {"made_at": None, "note": None, "tags": (), "detail": {"a": 1}, "spare": Wheel(3)}
    for values in (VALUES, {**VALUES, **nothing}):
        resource.model.model_validate(resource.view(cls(**values)))
    schema = resource.model.model_json_schema()
    assert schema["title"] == "Thing"
    assert schema["additionalProperties"] is False
    assert schema["required"] == [name for name in VALUES if name != "secret"]
    assert schema["properties"]["made_at"]["anyOf"][0] == {"type": "string", "format": "date-time"}


def test_the_docstring_describes_the_schema_and_its_fields() -> None:
    schema = Resource(Tuple, "Thing").model.model_json_schema()
    assert schema["description"] == "A thing."
    assert (
        schema["properties"]["made_at"]["description"]
        == "when it was made, if that is known; null: it is not"
    )


def test_properties_computed_and_flattened_fields_are_explicit() -> None:
    wheel = Resource(Wheel, "LargeWheel", properties=("is_large",))
    assert wheel.view(Wheel(28)) == {"size": 28, "is_large": True}
    car = Resource(Car, "CarShape", flattened=("wheel",), computed={"owner": owner})
    assert car.view(Car("ZH 7", Wheel(28))) == {"plate": "ZH 7", "size": 28, "owner": "owner of ZH 7"}
    car.model.model_validate(car.view(Car("ZH 7", Wheel(28))))


def test_a_page_has_items_and_a_cursor() -> None:
    page = Resource(Wheel, "SomeWheel").page("WheelPage")
    page.model_validate({"items": [{"size": 3}], "next_cursor": None})
    assert page.__name__ == "WheelPage"


def test_a_nested_class_needs_its_own_resource() -> None:
    with pytest.raises(TypeError, match="Engine has no resource"):
        Resource(Boat, "BoatShape")
