"""Field types with additional meaning: they determine the database columns and the API schema.

The first string after the Python type is the column type in PostgreSQL. The store parses JSON columns into
values; a row to be written holds JSON text, encoded by the codec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Annotated, Any


class Meaning(Enum):
    INSTANT = auto()
    JSON = auto()
    JSON_LIST = auto()
    JSON_OBJECT = auto()


Instant = Annotated[float, "double precision", Meaning.INSTANT]
"""Seconds since 1970."""

Json = Annotated[Any, "text", Meaning.JSON]
"""Any JSON value, stored as text; None if the column is empty."""

JsonList = Annotated[Sequence[str], "text", Meaning.JSON_LIST]
"""Strings, stored as a JSON list; an empty list if the column is empty."""

JsonObject = Annotated[Mapping[str, Any], "text", Meaning.JSON_OBJECT]
"""A JSON object, stored as text."""

BigInt = Annotated[int, "bigint"]
"""A 64-bit number in PostgreSQL; a plain `int` has 32 bits there."""

RunId = Annotated[str, "uuid"]
"""The id of a run: 32 hexadecimal digits, which PostgreSQL stores in 16 bytes."""
