"""The syntax that a driver needs for statements, which are written with `$1`, as in PostgreSQL.

Only asyncpg always accepts a list for an array. Other drivers get the array as text, which PostgreSQL parses,
so that adapters registered for lists have no effect.
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
    """`parameter` has {} for the number. The character `special` is written as `escaped` in other places."""

    parameter: str
    special: str = ""
    escaped: str = ""
    takes_lists: bool = False

    def text(self, query: SqlQuery, schema: str) -> str:
        return _render(self, query, schema)

    def values(self, columns: Sequence[Any]) -> list[Any]:
        """Convert the parameters of a batch: arrays in the form that the driver accepts, others unchanged."""
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


def by_name(values: Sequence[Any]) -> Mapping[str, Any]:
    """Map the names of parameters in the text to values."""
    return {f"p{number}": value for number, value in enumerate(values, 1)}


def array_text(values: Sequence[Any]) -> str:
    """Write an array as PostgreSQL parses it."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + _SPECIAL.sub(r"\\\1", value) + '"'
    # Columns store bools and enums as numbers.
    return str(int(value)) if isinstance(value, int) else str(value)


@lru_cache(maxsize=1024)
def _render(spelling: Spelling, query: SqlQuery, schema: str) -> str:
    """Replace parameters before the schema: its name may contain anything, even `$1`."""
    arrays = {str(number) for number, name in enumerate(query.names, 1) if name in query.arrays}
    text = _NUMBERED.sub(
        lambda match: spelling.placeholder(match[1], array=match[1] in arrays), spelling.escape(query.text)
    )
    return text.replace("redrive.", f"{spelling.escape(quoted(schema))}.")
