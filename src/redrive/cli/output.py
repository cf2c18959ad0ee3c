"""Write results as a screen or a table for people, or as JSON, CSV or plain lines for programs."""

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
MAX_FITTED_ROWS = 10_000
"""Rows of a table that are read before the widths of its columns are fixed."""
HOW_TO_SEE_MORE = "Use --limit N or --all for more."


def chosen(output: str | None) -> str:
    """Return the output format: by default a table on a terminal with rich installed, else plain lines."""
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
    """Write a list and return the number of rows.

    JSON has the whole row. The other formats have these columns, after `flat` has filled them.
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
    """Draw one item on a terminal, or with `piped` in a pipe too; otherwise write its fields or JSON."""
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
    """Return a screen. Call it only if `chosen` returned "table", because it imports rich."""
    from redrive.cli.screen import Screen

    return Screen()


@cache
def _suggest_rich() -> None:
    notice("Showing plain lines. For tables, run: pip install 'redrive[cli]'")


def _json(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    """Write each row as it arrives, so that a list can have any length."""
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
    """Format a cell; quote it if a spreadsheet would execute it as a formula."""
    text = "" if value is None or value in ([], (), {}) else plain_text(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(rows: Iterable[Row], columns: Sequence[TableColumn]) -> int:
    """Write a table of any length. The first `MAX_FITTED_ROWS` rows decide the widths of its columns."""
    number, rest, table = 0, iter(rows), None
    while part := list(islice(rest, MAX_FITTED_ROWS)):
        cells = [[column.cell(row) for column in columns] for row in part]
        if table is None:
            table = screen().table(
                cells,
                [column.heading for column in columns],
                whole={place for place, column in enumerate(columns) if column.whole},
                right={place for place, column in enumerate(columns) if _is_numeric(part, column.name)},
            )
        table.write(cells)
        number += len(part)
    return number


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


class Listing(NamedTuple):
    """A list of the API that takes a query.

    path       in the API; `/count` below it counts the items
    columns    of every format but JSON, which has all fields
    noun       plural, as in "no dead letters"
    flat       fills these columns from a row
    min_width  of the terminal that shows a column; a narrower terminal omits it
    default    query if none is given
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
            empty = f"No open {self.noun}." if query else f"No {self.noun}."
        else:
            empty = f"No {self.noun} match {query!r}."
        shown = show_rows(rows, columns, form, flat=self.flat, empty=empty)
        if limit is not None and shown == limit:
            found = client.get(f"{self.path}/count", q=query)
            if found["number"] > shown:
                notice(f"Showing {shown:,} of {counted(found)}. {HOW_TO_SEE_MORE}")


class NewestRows:
    """The first rows of a list that the API does not count. Reads one more row to know if there are more."""

    def __init__(self, rows: Iterable[Row], limit: int | None) -> None:
        self._rows = rows
        self._limit = limit
        self._more = False

    def __iter__(self) -> Iterator[Row]:
        for number, row in enumerate(self._rows):
            if number == self._limit:
                self._more = True
                return
            yield row

    @classmethod
    def read(cls, client: Client, path: str, limit: int | None, **query: object) -> NewestRows:
        return cls(client.pages(path, limit=None if limit is None else limit + 1, **query), limit)

    def mention_rest(self) -> None:
        if self._more:
            notice(f"Showing the newest {self._limit:,}. {HOW_TO_SEE_MORE}")
