"""Rows are built by keyword, so that no value lands in the wrong column."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import redrive
from redrive.model.row import Row
from redrive.store import statement

SOURCE = Path(redrive.__file__).parent
MAX_POSITIONAL = 3


def test_no_row_is_built_by_position() -> None:
    rows = set(_row_classes())
    assert {"DeadLetter", "Claim", "Completed", "NewRun", "NewReplay", "Entry"} <= rows

    assert [place for file in SOURCE.rglob("*.py") for place in _built_by_position(file, rows)] == []


def _row_classes() -> Iterator[str]:
    """The classes that SQL texts name, and all other rows."""
    for file in (SOURCE / "store").glob("*.py"):
        import_module(f"redrive.store.{file.stem}")
    for module in statement._MODULES.values():
        yield from module._row_classes
    yield from _names_below(Row)


def _names_below(row: type[Row]) -> Iterator[str]:
    for each in row.__subclasses__():
        yield each.__name__
        yield from _names_below(each)


def _built_by_position(file: Path, rows: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in rows):
            continue
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if len(node.args) > MAX_POSITIONAL or starred:
            yield f"{file.relative_to(SOURCE)}:{node.lineno} {node.func.id}"
