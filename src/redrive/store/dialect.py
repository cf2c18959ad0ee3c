"""Render one SQL text for SQLite and for PostgreSQL.

Placeholders in a text name row classes of the Python module with the same name as the `.sql` file:

    {columns:DeadLetter}               id, org, run_id, …            the fields of the class
    {columns:DeadLetter letter}        letter.id, letter.org, …
    {columns:DeadLetter except a, b}   all fields but these
    {assign:DeadLetter except a, b}    id = excluded.id, …           for ON CONFLICT … DO UPDATE SET
    {batch:Completed}                  the rows of a batch, one column per field, under the name `batch`
    {batch:NewRun only id, input}      only these fields, or all `except` some; a parameter outside the batch
                                       has one value for all rows
    {items:ids}                        the strings of a JSON list, as a table with the column `value`
    {text:run_id}                      the id of a run as text; on PostgreSQL it is a `uuid`

PostgreSQL takes a batch as arrays, in one execution. SQLite executes the statement once per row, with the
values of the row in place of `batch.<column>`; an insert of a batch becomes `VALUES`. `FOR UPDATE` is for
PostgreSQL; SQLite locks the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum, StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

RowClass = Callable[[str], type]

_COLUMNS = re.compile(r"\{(columns|assign):(\w+)(?: (?!except\b)(\w+))?(?:\s+except\s+([\w\s,]+))?\}")
_BATCH = re.compile(r"\{batch:(\w+)(?:\s+(only|except)\s+([\w\s,]+))?\}")
_ROWS = r"\{batch:[^}]*\}"
_JOINED_BATCH = re.compile(
    rf"(?:FROM {_ROWS}\s+JOIN (?P<table>\S+ AS \w+)|JOIN {_ROWS})\s+ON (?P<condition>[^\n]+)(?P<gap>\s*)"
    r"(?P<others>(?:LEFT JOIN [^\n]+\n?\s*)*)(?P<where>WHERE )?"
)
_INSERTED_BATCH = re.compile(
    rf"(INSERT INTO [^()]+\([^)]*\)\s+)SELECT ((?:(?!\bFROM\b).)+?)\s+FROM {_ROWS}(?:\s+WHERE true)?"
    r"(?=\s*(?:ON CONFLICT|RETURNING|$))",
    re.DOTALL,
)
_ITEMS = re.compile(r"\{items:(\w+)\}")
_LOCK = re.compile(r"\s+FOR UPDATE(?: OF [a-z_]+(?:, [a-z_]+)*)?(?: SKIP LOCKED)?")
_RETURNING = re.compile(r"(?<=\bRETURNING )[^()]+$")
_TYPES: dict[type, str] = {str: "text", int: "integer", float: "double precision", bool: "integer"}


def with_columns(text: str, row_class: RowClass) -> str:
    """Fill in the column lists, which are equal on both databases."""

    def columns(match: re.Match[str]) -> str:
        kind, name, alias, excluded = match.groups()
        names = [field for field in fields_of(row_class(name)) if field not in _words(excluded)]
        if kind == "assign":
            return ", ".join(f"{field} = excluded.{field}" for field in names)
        return ", ".join(f"{alias}.{field}" if alias else field for field in names)

    return _COLUMNS.sub(columns, text)


def for_sqlite(text: str) -> str:
    """Render the text for one execution per row, with the values of the row in place of the batch."""
    text = _ITEMS.sub(r"(SELECT value FROM json_each(:\1))", text)
    text = _LOCK.sub("", text).replace("redrive.", "").replace(":clock", ":now")
    if _BATCH.search(text):
        text = _INSERTED_BATCH.sub(r"\1VALUES (\2)", text)
        text = _JOINED_BATCH.sub(_as_condition, text)
        text = re.sub(rf"FROM {_ROWS}(?:,\s*|\s+WHERE\b)", lambda match: _without_batch(match[0]), text)
        text = re.sub(rf"FROM {_ROWS}", "WHERE true", text)
        text = re.sub(r"\bbatch\.(\w+)", r":\1", text)
        text = _RETURNING.sub(lambda match: re.sub(r"\b\w+\.(?=\w)", "", match[0]), text)
    return text


def _as_condition(match: re.Match[str]) -> str:
    """Turn the join with the one row of the batch into a condition: SQLite runs a join four times slower."""
    table = f"FROM {match['table']}\n" if match["table"] else ""
    others = f"{match['others'].rstrip()}\n" if match["others"] else ""
    where = f"{table}{others}WHERE {match['condition']}"
    return f"{where} AND " if match["where"] else f"{where}{match['gap']}"


def _without_batch(start: str) -> str:
    return "FROM " if start.rstrip().endswith(",") else "WHERE"


def for_postgres(text: str, row_class: RowClass) -> str:
    """Render the text for one execution per batch, with one array per column."""

    def batch(match: re.Match[str]) -> str:
        row = row_class(match[1])
        listed = _words(match[3])
        names = listed if match[2] == "only" else [name for name in fields_of(row) if name not in listed]
        arrays = ", ".join(f"CAST(:{name} AS {_column_type(row, name)}[])" for name in names)
        return f"unnest({arrays}) AS batch ({', '.join(names)})"

    items = r"(SELECT json_array_elements_text(CAST(:\1 AS json)) AS value)"
    return _BATCH.sub(batch, _ITEMS.sub(items, text))


def fields_of(row_class: type) -> tuple[str, ...]:
    fields: tuple[str, ...] | None = getattr(row_class, "__struct_fields__", None)
    return row_class._fields if fields is None else fields  # type: ignore[attr-defined]


def _column_type(row_class: type, name: str) -> str:
    """Return the PostgreSQL type of a column, which is a field or a property of the class."""
    computed = getattr(row_class, name, None)
    if isinstance(computed, property):
        return _sql_type(get_type_hints(computed.fget)["return"])
    return _sql_type(_hints(row_class)[name])


@cache
def _hints(row_class: type) -> dict[str, Any]:
    return get_type_hints(row_class, include_extras=True)


def _sql_type(annotation: Any) -> str:
    """Return the PostgreSQL type of an annotation; `Annotated[int, "bigint"]` names it explicitly."""
    if get_origin(annotation) is Annotated:
        return str(get_args(annotation)[1])
    if get_origin(annotation) in (Union, UnionType):
        [annotation] = [part for part in get_args(annotation) if part is not type(None)]
        return _sql_type(annotation)
    if issubclass(annotation, StrEnum):
        return "text"
    if issubclass(annotation, IntEnum):
        return "integer"
    return _TYPES[annotation]


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text or ""))
