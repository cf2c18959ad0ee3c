"""Types of fields that mean more than their Python type says: the columns and the API follow from them.

The first word after the Python type is the column's type in PostgreSQL.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Annotated


class Meaning(Enum):
    INSTANT = auto()
    JSON = auto()
    JSON_LIST = auto()
    JSON_OBJECT = auto()


Instant = Annotated[float, "double precision", Meaning.INSTANT]
"""Seconds since 1970."""

JsonText = Annotated[str, "text", Meaning.JSON]
"""Any JSON value, stored as text."""

JsonList = Annotated[str, "text", Meaning.JSON_LIST]
"""A JSON list of strings, stored as text."""

JsonObject = Annotated[str, "text", Meaning.JSON_OBJECT]
"""A JSON object, stored as text."""

BigInt = Annotated[int, "bigint"]
"""A number that PostgreSQL keeps in 64 bits; a plain `int` has 32 there."""
