"""How a driver wants statements written. The statements know `$1`, as PostgreSQL does.

Only asyncpg takes a list for an array under all circumstances. The others get the text of the array, which
PostgreSQL reads itself, whatever they have been taught about lists, and about lists of several types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from redrive.store.postgres_migration import quoted
from redrive.store.statement import SqlQuery

_NUMBERED = re.compile(r"\$(\d+)")
_SPECIAL = re.compile(r'(["\\])')


@dataclass(frozen=True, slots=True)
class Spelling:
    """`parameter` holds {} for the number. `special` is a sign that is written as `escaped` elsewhere."""

    parameter: str
    special: str = ""
    escaped: str = ""
    takes_lists: bool = False

    def text(self, query: SqlQuery, schema: str) -> str:
        return _written(self, query, schema)

    def values(self, columns: Sequence[Any]) -> list[Any]:
        """Of a batch: arrays as the driver takes them, and the rest."""
        if self.takes_lists:
            return list(columns)
        return [array_text(column) if isinstance(column, list) else column for column in columns]

    def escape(self, text: str) -> str:
        return text.replace(self.special, self.escaped) if self.special else text

    def placeholder(self, number: str, *, array: bool) -> str:
        parameter = self.parameter.format(number)
        return f"CAST({parameter} AS text)" if array and not self.takes_lists else parameter


ASYNCPG = Spelling("${}", takes_lists=True)
PSYCOPG = Spelling("%(p{})s", "%", "%%")
SQLALCHEMY = Spelling(":p{}", ":", r"\:")


def named(values: Sequence[Any]) -> Mapping[str, Any]:
    """The values under the names that stand in the text."""
    return {f"p{number}": value for number, value in enumerate(values, 1)}


def array_text(values: Sequence[Any]) -> str:
    """An array as PostgreSQL reads it."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + _SPECIAL.sub(r"\\\1", value) + '"'
    # Bools and enums are numbers in their columns.
    return str(int(value)) if isinstance(value, int) else str(value)


@lru_cache(maxsize=1024)
def _written(spelling: Spelling, query: SqlQuery, schema: str) -> str:
    """The name of the schema comes last: it may hold anything, even `$1`."""
    arrays = {str(number) for number, name in enumerate(query.names, 1) if name in query.arrays}
    text = _NUMBERED.sub(
        lambda match: spelling.placeholder(match[1], array=match[1] in arrays), spelling.escape(query.text)
    )
    return text.replace("redrive.", f"{spelling.escape(quoted(schema))}.")
