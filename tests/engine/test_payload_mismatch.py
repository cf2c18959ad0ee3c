"""Comparing the fields that a task expects with those of a payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from msgspec import Struct, field
from pydantic import BaseModel, Field

from redrive.engine.payload import from_json
from redrive.engine.payload_mismatch import MAX_NAMES, redacted
from redrive.errors import PayloadError
from redrive.model.failure import PayloadMismatch
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.words.failure import describe_mismatch


@dataclass
class Plain:
    name: str
    country: str
    note: str = ""


class Typed(TypedDict, total=False):
    name: str


class Renamed(Struct):
    name: str = field(name="Name")


class Model(BaseModel):
    name: str = Field(alias="Name")
    note: str = ""


def mismatch_of(annotation: Any, value: Any) -> PayloadMismatch | None:
    with pytest.raises(PayloadError) as caught:
        from_json(value, annotation)
    return caught.value.mismatch


@pytest.mark.parametrize("annotation", [Plain, Plain | None])
def test_missing_and_unknown_fields_are_named(annotation: Any) -> None:
    found = mismatch_of(annotation, {"name": "ana", "cuntry": "DE"})
    assert found == PayloadMismatch(
        expected=("name", "country", "note"),
        given=("name", "cuntry"),
        missing=("country",),
        unknown=("cuntry",),
    )
    assert describe_mismatch(found) == (
        "The code expects the field 'country'. The code doesn't know the field 'cuntry'."
    )


def test_the_names_are_those_of_the_json() -> None:
    for annotation in (Renamed, Model):
        found = mismatch_of(annotation, {})
        assert found is not None
        assert (found.expected[0], found.missing) == ("Name", ("Name",))


def test_fields_that_all_match_are_not_described() -> None:
    found = mismatch_of(Typed, {"name": 5})
    assert found == PayloadMismatch(("name",), ("name",))
    assert describe_mismatch(found) == ""


def test_a_value_that_is_no_object_has_no_fields() -> None:
    assert mismatch_of(Plain, [1]) == PayloadMismatch(
        ("name", "country", "note"), missing=("name", "country")
    )


@pytest.mark.parametrize("annotation", [int, list[Plain]])
def test_without_one_class_nothing_is_named(annotation: Any) -> None:
    assert mismatch_of(annotation, "text") is None


def test_the_names_are_limited_and_redacted() -> None:
    secret = "sk_live_51HxQ2eAbCdEfGhIjKlMnOpQr"
    found = mismatch_of(Plain, {secret: 1, **{f"key {number}": number for number in range(100)}})
    assert found is not None
    assert len(found.given) == len(found.unknown) == MAX_NAMES
    clean = redacted(found, DEFAULT_REDACTOR)
    assert secret not in repr(clean)
    assert clean.given[1:] == found.given[1:]
