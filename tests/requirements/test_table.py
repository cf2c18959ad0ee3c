"""The table of requirements: every ID has a row, and everything that the row names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.cases import loop_over

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "requirements.md"
NUMBERS = {"W": 16, "G": 15, "D": 9, "P": 12, "M": 12, "I": 16}
NOT_BUILT = "Not built yet"
DEVIATIONS = ("W5", "D4", "D6", "G2", "M1", "M9")
"""Rows with an intended deviation: without its reason, it would look like a fault."""

MAX_NUMBER = 21
_NUMBERED = re.compile(r"(?:^|::)test_(\d+)_")
_TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::([A-Za-z0-9_:]+)`")
_QUOTED = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    id: str
    asks: str
    where: str
    tests: str
    deviations: str


def rows() -> list[Row]:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [WGDPMI]\d+ \|", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" |"))) for line in lines]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the tests of a file; tests of a class as Class::test."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            owner + member.name
            for member in members
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name.startswith("test_")
        }
    return frozenset(found)


def test_every_requirement_has_one_row_in_order() -> None:
    expected = [f"{letter}{number}" for letter, most in NUMBERS.items() for number in range(1, most + 1)]
    assert [row.id for row in rows()] == expected


@loop_over("row", rows())
def test_a_row_has_the_requirement_the_modules_and_the_tests(row: Row) -> None:
    assert row.asks
    assert (not row.where) == (not row.tests) == (row.deviations == NOT_BUILT)


@loop_over("row", rows())
def test_the_modules_exist(row: Row) -> None:
    for module in _QUOTED.findall(row.where):
        assert (ROOT / "src" / "redrive" / module).exists(), module


@loop_over("row", rows())
def test_the_tests_exist(row: Row) -> None:
    found = _TEST.findall(row.tests)
    assert len(found) == len(_QUOTED.findall(row.tests))
    for path, name in found:
        assert name in names_in(ROOT / path), f"{path} has no {name}"


def test_each_number_has_a_test_named_after_it() -> None:
    """The numbers of faults, gaps and requirements. `test_12_...` shows number 12."""
    found = {
        int(number[1])
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in names_in(path)
        if (number := _NUMBERED.search(name))
    }
    assert set(range(1, MAX_NUMBER + 1)) <= found


def test_deviations_have_a_reason() -> None:
    by_id = {row.id: row for row in rows()}
    assert all(by_id[identity].deviations for identity in DEVIATIONS)


def test_a_name_that_is_not_there_would_be_noticed() -> None:
    assert "test_every_requirement_has_one_row_in_order" in names_in(Path(__file__))
    assert "test_nothing" not in names_in(Path(__file__))
