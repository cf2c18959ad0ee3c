"""Rows, as a person or a program wants them: a table, JSON, or plain lines with tabs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from redrive.cli.text import out, visible

FORMATS = ("table", "json", "plain")

Function = TypeVar("Function", bound=Callable[..., Any])
Row = Mapping[str, Any]


def output_option(function: Function) -> Function:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="How to write it; by default a table on a terminal, else plain lines.",
    )(function)


def show_rows(rows: Sequence[Row], columns: Sequence[str], output: str | None) -> None:
    """A list; JSON has everything that is known, the others have these columns."""
    output = chosen(output)
    if output == "json":
        show_json(list(rows))
        return
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    lines = ["\t".join(each) for each in cells] if output == "plain" else _aligned(columns, cells)
    for line in lines:
        out(line)


def show_json(value: object) -> None:
    out(json.dumps(value, indent=2))


def chosen(output: str | None) -> str:
    return output or ("table" if sys.stdout.isatty() else "plain")


def _aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rows = [[column.replace("_", " ").upper() for column in columns], *cells]
    widths = [max(len(row[number]) for row in rows) for number in range(len(columns))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(visible, value)) or "-"
    return visible(value)
