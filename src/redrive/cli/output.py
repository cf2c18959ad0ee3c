"""Answers in the form that was asked for: a screen or a table for people, JSON, CSV or lines for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from redrive.cli.client import Client
from redrive.cli.table import Row, TableColumn, counted, plain_text
from redrive.cli.terminal import has_rich, notice, out, terminal_width

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

JSON = ("json", "ndjson")
ROWS_AT_ONCE = 1_000
"""Rows of a table whose columns are fitted together."""
HOW_TO_SEE_MORE = "--all shows all of them, --limit so many"


def chosen(output: str | None) -> str:
    """The form: by default a table on a terminal. Without rich there are no tables, but plain lines."""
    form = output or ("table" if sys.stdout.isatty() else "plain")
    if form == "table" and not has_rich():
        _suggest_rich()
        return "plain"
    return form


def show_rows(
    rows: Iterable[Row],
    columns: Sequence[str | TableColumn],
    output: str | None,
    *,
    flat: Callable[[Row], Row] | None = None,
    empty: str = "",
) -> int:
    """Write a list and return how many rows there were.

    JSON has each row as it is, the other forms have these columns, after `flat` has filled them.
    """
    form = chosen(output)
    known = [column if isinstance(column, TableColumn) else TableColumn(column) for column in columns]
    if flat is not None and form not in JSON:
        rows = map(flat, rows)
    if form == "ndjson":
        number = _write_lines(json.dumps(row) for row in rows)
    elif form == "plain":
        number = _write_lines("\t".join(plain_text(row.get(column.name)) for column in known) for row in rows)
    else:
        number = {"json": _json, "csv": _csv, "table": _table}[form](rows, known)
    if not number and empty and sys.stderr.isatty():
        notice(empty)
    return number


def show_one(
    row: Row,
    columns: Sequence[str],
    output: str | None,
    draw: Callable[[Screen], None],
    *,
    flat: Callable[[Row], Row] | None = None,
    piped: bool = False,
) -> None:
    """Draw one thing on a terminal, and if `piped`, also where none is; else write these fields, or JSON."""
    form = chosen(output)
    if form in JSON:
        show_json(row, form)
    elif form == "table" or (form == "plain" and piped and has_rich()):
        draw(screen())
    elif form == "csv":
        show_rows([row], columns, form, flat=flat)
    else:
        fields = row if flat is None else flat(row)
        _write_lines(f"{name}\t{plain_text(fields.get(name))}" for name in columns)


def show_json(value: object, form: str = "json") -> None:
    out(json.dumps(value, indent=2 if form == "json" else None))


def screen() -> Screen:
    """Return a screen; call it only for a form that `chosen` returned, because it imports rich."""
    from redrive.cli.screen import Screen

    return Screen()


@cache
def _suggest_rich() -> None:
    notice("For tables that fit the terminal: pip install 'redrive[cli]'. These are plain lines.")


def _json(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    """Write them as they come, so that there can be any number of them."""
    number = 0
    for number, row in enumerate(rows, 1):
        out(("[" if number == 1 else ",") + "\n  " + json.dumps(row, indent=2).replace("\n", "\n  "), end="")
    out("\n]" if number else "[]")
    return number


def _csv(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    out(_csv_line([column.name for column in columns]))
    return _write_lines(_csv_line([_csv_cell(row.get(column.name)) for column in columns]) for row in rows)


def _write_lines(lines: Iterable[str]) -> int:
    number = 0
    for line in lines:
        out(line)
        number += 1
    return number


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _csv_cell(value: object) -> str:
    """Quoted, if a spreadsheet would take it for a formula, and execute it."""
    text = "" if value is None or value in ([], (), {}) else plain_text(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    """Write a thousand rows at a time: any number of them can come."""
    number, rest, drawn = 0, iter(rows), screen()
    while part := list(islice(rest, ROWS_AT_ONCE)):
        drawn.table(
            [[column.cell(row) for column in columns] for row in part],
            [column.heading for column in columns],
            whole={place for place, column in enumerate(columns) if column.whole},
            right={place for place, column in enumerate(columns) if _is_numeric(part, column.name)},
            show_heads=number == 0,
        )
        number += len(part)
    return number


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


class Listing(NamedTuple):
    """
    path       in the API, where `/count` tells how many there are
    columns    for people; programs that read JSON get everything
    noun       of many of them, as in "no dead letters"
    flat       fills these columns from a row
    min_width  of the terminal, for a column that a narrower one does without
    default    the query if none is given
    """

    path: str
    columns: Sequence[TableColumn]
    noun: str
    flat: Callable[[Row], Row] | None = None
    min_width: Mapping[str, int] = MappingProxyType({})
    default: str = ""

    def show(
        self, client: Client, query: str, limit: int | None, output: str | None, **options: object
    ) -> None:
        query, form, columns = query or self.default, chosen(output), self.columns
        if form == "table":
            room = terminal_width()
            columns = [column for column in columns if self.min_width.get(column.name, 0) <= room]
        rows = client.pages(self.path, limit=limit, q=query, **options)
        if query == self.default:
            empty = f"There are no {self.noun}" + (" that are not closed." if query else ".")
        else:
            empty = f"No {self.noun} fulfil the query {query!r}."
        shown = show_rows(rows, columns, form, flat=self.flat, empty=empty)
        if limit is not None and shown == limit:
            found = client.get(f"{self.path}/count", q=query)
            if found["number"] > shown:
                notice(f"These are {shown:,} of {counted(found)}; {HOW_TO_SEE_MORE}.")


class NewestRows:
    """The first rows of a list that the API does not count. One more is read, to know if there is more."""

    def __init__(self, client: Client, path: str, limit: int | None, **query: object) -> None:
        self._rows = client.pages(path, limit=None if limit is None else limit + 1, **query)
        self._limit = limit
        self._more = False

    def __iter__(self) -> Iterator[Row]:
        for number, row in enumerate(self._rows):
            if number == self._limit:
                self._more = True
                return
            yield row

    def mention_rest(self) -> None:
        if self._more:
            notice(f"These are the newest {self._limit:,}; {HOW_TO_SEE_MORE}.")
