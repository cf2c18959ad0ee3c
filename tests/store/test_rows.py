"""Converting columns to rows of the model."""

from __future__ import annotations

from enum import StrEnum

from redrive.model.claim import Isolation
from redrive.model.field import Json, JsonList, JsonObject
from redrive.model.row import Row
from redrive.store.rows import UNREADABLE, columns_of, read_row, read_rows


class Color(StrEnum):
    RED = "red"


class Car(Row, frozen=True, kw_only=True):
    id: str
    color: Color | None
    is_sold: bool
    note: Json
    tags: JsonList = ()
    parts: JsonObject


class Seat(Row, frozen=True):
    number: int
    isolation: Isolation
    is_taken: bool = False


def test_columns_become_enums_bools_and_json_values() -> None:
    read = read_row(Car, ["1", "red", 1, '{"a": [1, null]}', '["x", "y"]', '{"door": 4}'])
    assert read == Car(
        id="1", color=Color.RED, is_sold=True, note={"a": [1, None]}, tags=("x", "y"), parts={"door": 4}
    )
    assert isinstance(read.color, Color)


def test_empty_columns_are_none_or_empty() -> None:
    read = read_row(Car, ["1", None, 0, None, None, None])
    assert (read.color, read.is_sold, read.note, read.tags, read.parts) == (None, False, None, (), {})


def test_damaged_json_does_not_hide_the_rest_of_the_row() -> None:
    read = read_row(Car, ["1", "red", 0, "{no", "{no", "[1]"])
    assert (read.id, read.note, read.tags, read.parts) == ("1", UNREADABLE, (), {})


def test_a_word_of_a_newer_version_stays_text() -> None:
    assert read_row(Car, ["1", "ultraviolet", 0, None, None, None]).color == "ultraviolet"


def test_rows_without_keyword_only_fields_are_read_by_position() -> None:
    seats = read_rows(Seat, [(1, 2, 0), [2, 0, 1]])
    assert seats == [Seat(1, Isolation.ACTIVE, False), Seat(2, Isolation.NONE, True)]
    assert read_row(Seat, columns_of(seats[0])) == seats[0]
