"""Rows, for a person or a program: a table that fits the terminal, JSON, CSV, or lines with tabs."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import click

from redrive.cli.cell import cut, padded, width
from redrive.cli.terminal import bold, notice, out, visible

FORMATS = ("table", "json", "ndjson", "csv", "plain")
GAP = 2
MIN_WIDTH = 8
DEFAULT_LIMIT = 50
AT_ONCE = 1_000
"""Rows of a table whose widths are looked at together."""

Function = TypeVar("Function", bound=Callable[..., Any])
Row = dict[str, Any]


class Column(NamedTuple):
    """
    name   of the field
    title  above it on a terminal
    short  how a terminal shows its value; a program gets it as it is
    whole  never cut: it is there to be copied
    """

    name: str
    title: str = ""
    short: Callable[[Any], str] | None = None
    whole: bool = False


def output_option(function: Function) -> Function:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="How to write it; by default a table on a terminal, else plain lines.",
    )(function)


def limit_option(function: Function) -> Function:
    """Gives `limit`: None is all of them."""
    every = click.option(
        "--all",
        "limit",
        flag_value=0,
        type=int,
        callback=_all_for_none,
        help="All of them, however many there are.",
    )
    most = click.option(
        "--limit",
        "limit",
        type=click.IntRange(0),
        default=DEFAULT_LIMIT,
        show_default=True,
        callback=_all_for_none,
        help="The most to show; 0 is all.",
    )
    return most(every(function))


def _all_for_none(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    """Of both options: click keeps what the one says that was given, with the other one's callback too."""
    return value or None


def show_rows(
    rows: Iterable[Row],
    columns: Sequence[str | Column],
    output: str | None,
    *,
    empty: str = "",
) -> int:
    """A list; JSON has everything that is known, the others have these columns. How many there were."""
    output, known = chosen(output), [each if isinstance(each, Column) else Column(each) for each in columns]
    writers = {"json": _json, "ndjson": _ndjson, "csv": _csv, "plain": _plain, "table": _table}
    shown = writers[output](rows, known)
    if not shown and empty and sys.stderr.isatty():
        notice(empty)
    return shown


def show_fields(row: Row, columns: Sequence[str | Column], output: str | None) -> None:
    """One thing: a line for each of these fields, or JSON with all of them."""
    output = chosen(output)
    if output in ("json", "ndjson"):
        show_json(row, indent=2 if output == "json" else None)
        return
    known = [each if isinstance(each, Column) else Column(each) for each in columns]
    if output == "csv":
        _csv([row], known)
        return
    titles = max(len(_title(each)) for each in known) + GAP
    for each in known:
        if output == "plain":
            out(f"{each.name}\t{cell(row.get(each.name))}")
        else:
            out(f"{_title(each).lower():{titles}}{_shown(row, each)}")


def show_json(value: object, *, indent: int | None = 2) -> None:
    out(json.dumps(value, indent=indent))


def chosen(output: str | None) -> str:
    return output or ("table" if sys.stdout.isatty() else "plain")


def cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(visible, value)) or "-"
    if isinstance(value, dict):
        return visible(json.dumps(value)) if value else "-"
    return visible(value)


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _json(rows: Iterable[Row], columns: Sequence[Column]) -> int:
    """Written as they come, so that any number of them can be."""
    number = 0
    for number, row in enumerate(rows, 1):
        out(("[" if number == 1 else ",") + "\n  " + json.dumps(row, indent=2).replace("\n", "\n  "), end="")
    out("\n]" if number else "[]")
    return number


def _ndjson(rows: Iterable[Row], columns: Sequence[Column]) -> int:
    return _written(json.dumps(row) for row in rows)


def _csv(rows: Iterable[Row], columns: Sequence[Column]) -> int:
    out(_line([each.name for each in columns]))
    return _written(_line([_for_csv(row.get(each.name)) for each in columns]) for row in rows)


def _plain(rows: Iterable[Row], columns: Sequence[Column]) -> int:
    return _written("\t".join(cell(row.get(each.name)) for each in columns) for row in rows)


def _written(lines: Iterable[str]) -> int:
    number = 0
    for line in lines:
        out(line)
        number += 1
    return number


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _for_csv(value: object) -> str:
    """A spreadsheet takes what begins with one of these signs for a formula, and executes it."""
    text = "" if value is None or value in ([], (), {}) else cell(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(rows: Iterable[Row], columns: Sequence[Column]) -> int:
    number, rest = 0, iter(rows)
    while part := list(islice(rest, AT_ONCE)):
        cells = [[_shown(row, each) for each in columns] for row in part]
        right = [_is_numeric([row.get(each.name) for row in part]) for each in columns]
        heads = [_title(each) for each in columns]
        widths = _fitted([heads, *cells], columns, terminal_width())
        if number == 0:
            out(bold(_aligned(heads, widths, right)))
        for line in cells:
            out(_aligned(line, widths, right))
        number += len(part)
    return number


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = zip(cells, widths, right, strict=True)
    parts = [padded(cut(text, room), room, numeric) for text, room, numeric in placed]
    return (" " * GAP).join(parts).rstrip()


def _fitted(rows: Sequence[Sequence[str]], columns: Sequence[Column], room: int) -> list[int]:
    """Of what may be cut, the widest gives way first."""
    widths = [max(width(row[number]) for row in rows) for number in range(len(columns))]
    widths = [each if column.whole else min(each, room) for each, column in zip(widths, columns, strict=True)]
    while sum(widths) + GAP * (len(widths) - 1) > room:
        candidates = [
            number
            for number, each in enumerate(columns)
            if not each.whole and widths[number] > max(MIN_WIDTH, width(_title(each)))
        ]
        if not candidates:
            break
        widest = max(candidates, key=lambda number: widths[number])
        widths[widest] -= 1
    return widths


def _title(column: Column) -> str:
    return (column.title or column.name.replace("_", " ")).upper()


def _shown(row: Row, column: Column) -> str:
    value = row.get(column.name)
    return visible(column.short(value)) if column.short is not None and value is not None else cell(value)


def _is_numeric(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in known)
