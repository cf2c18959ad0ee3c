"""Types of fields that mean more than their Python type says: the columns and the API follow from them.

The first word after the Python type is the column's type in PostgreSQL. The store reads JSON columns into
values; a row that is to be written holds the text that the codec has made of them.
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
"""Any JSON value, stored as text; None where the column is empty."""

JsonList = Annotated[Sequence[str], "text", Meaning.JSON_LIST]
"""Strings, stored as a JSON list; none where the column is empty."""

JsonObject = Annotated[Mapping[str, Any], "text", Meaning.JSON_OBJECT]
"""A JSON object, stored as text."""

BigInt = Annotated[int, "bigint"]
"""A number that PostgreSQL keeps in 64 bits; a plain `int` has 32 there."""

RunId = Annotated[str, "uuid"]
"""The id of a run: 32 hexadecimal digits, which PostgreSQL keeps in 16 bytes."""
