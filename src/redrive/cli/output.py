"""Answers in the form that was asked for: a screen or a table for people, JSON, CSV or lines for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from redrive.cli.terminal import escape, has_rich, notice, out

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

FORMATS = ("table", "json", "ndjson", "csv", "plain")
JSON = ("json", "ndjson")
DEFAULT_LIMIT = 50
ROWS_AT_ONCE = 1_000
"""Rows of a table whose columns are fitted together."""

Function = TypeVar("Function", bound=Callable[..., Any])
Row = dict[str, Any]


class TableColumn(NamedTuple):
    """
    name   of the field
    title  above it in a table
    short  how a table shows its value; a program gets it as it is
    whole  never cut: it is there to be copied
    """

    name: str
    title: str = ""
    short: Callable[[Any], str] | None = None
    whole: bool = False

    @property
    def heading(self) -> str:
        return (self.title or self.name.replace("_", " ")).upper()

    def cell(self, row: Row) -> str:
        value = row.get(self.name)
        return self.short(value) if self.short is not None and value is not None else plain_text(value)


def output_option(function: Function) -> Function:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="How to write it; by default a table on a terminal, else plain lines.",
    )(function)


def limit_option(function: Function) -> Function:
    """Add the argument `limit`: None is all of them."""
    every = click.option(
        "--all",
        "limit",
        flag_value=0,
        type=int,
        callback=_none_for_zero,
        help="All of them, however many there are.",
    )
    most = click.option(
        "--limit",
        "limit",
        type=click.IntRange(0),
        default=DEFAULT_LIMIT,
        show_default=True,
        callback=_none_for_zero,
        help="The most to show; 0 is all.",
    )
    return most(every(function))


def _none_for_zero(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    """For both options: click calls the callback of either one, whichever was given."""
    return value or None


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
    writers = {"json": _json, "ndjson": _ndjson, "csv": _csv, "plain": _plain, "table": _table}
    number = writers[form](rows, known)
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
        _csv([row if flat is None else flat(row)], list(map(TableColumn, columns)))
    else:
        fields = row if flat is None else flat(row)
        _write_lines(f"{name}\t{plain_text(fields.get(name))}" for name in columns)


def show_json(value: object, form: str = "json") -> None:
    out(json.dumps(value, indent=2 if form == "json" else None))


def screen() -> Screen:
    """For a form that `chosen` allows; without it rich is not imported."""
    from redrive.cli.screen import Screen

    return Screen()


def plain_text(value: object) -> str:
    """A value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(escape, value)) or "-"
    if isinstance(value, dict):
        return escape(json.dumps(value)) if value else "-"
    return escape(value)


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


def _ndjson(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    return _write_lines(json.dumps(row) for row in rows)


def _csv(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    out(_csv_line([column.name for column in columns]))
    return _write_lines(_csv_line([_csv_cell(row.get(column.name)) for column in columns]) for row in rows)


def _plain(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    return _write_lines("\t".join(plain_text(row.get(column.name)) for column in columns) for row in rows)


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
