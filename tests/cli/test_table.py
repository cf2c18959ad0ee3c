"""Tables that fit the terminal, and the same rows for machines."""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from redrive.cli.output import _suggest_rich, show_one, show_rows
from redrive.cli.screen import Screen
from redrive.cli.table import TableColumn

ROWS = [
    {"name": "a" * 60, "count": 5, "id": "0" * 32, "more": {"x": 1}},
    {"name": "b\x1b[31mred\nline", "count": 12_345, "id": "1" * 32, "more": None},
]
COLUMNS = (TableColumn("name"), TableColumn("count"), TableColumn("id", whole=True))


def test_a_table_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert show_rows(ROWS, COLUMNS, "table") == 2
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[0].endswith("…")
    assert all(line.endswith(row["id"]) for line, row in zip(lines[1:], ROWS, strict=True))  # type: ignore[arg-type]
    assert lines[1].index(" 5 ") > lines[2].index("12345")  # numbers are right-aligned
    assert "\x1b[31m" not in "".join(lines)


def test_ids_stay_whole_in_the_narrowest_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    show_rows(ROWS, COLUMNS, "table")
    assert "0" * 32 in capsys.readouterr().out


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("ndjson", None)])
def test_json(capsys: pytest.CaptureFixture[str], output: str, read: object) -> None:
    show_rows(ROWS, COLUMNS, output)
    text = capsys.readouterr().out
    assert (json.loads(text) if read else [json.loads(line) for line in text.splitlines()]) == ROWS


def test_a_long_table_has_one_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it is written in several parts, and its first rows are the shortest."""
    monkeypatch.setenv("COLUMNS", "60")
    rows = [{"name": "x" * (1 + number // 100), "id": f"{number:04}"} for number in range(2_500)]
    assert show_rows(rows, ("name", TableColumn("id", whole=True)), "table") == 2_500
    head, *lines = capsys.readouterr().out.splitlines()
    assert {line.index(row["id"], 3) for line, row in zip(lines, rows, strict=True)} == {head.index("ID")}
    assert len(lines) == 2_500


def test_a_row_after_the_widths_are_fixed_is_cut_but_for_an_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.cli.output.MAX_FITTED_ROWS", 2)
    rows = [
        {"name": "first", "id": "1"},
        {"name": "second", "id": "2"},
        {"name": "the third", "id": "3" * 20},
    ]
    show_rows(rows, ("name", TableColumn("id", whole=True)), "table")
    assert capsys.readouterr().out.splitlines() == [
        "NAME    ID",
        "first   1",
        "second  2",
        f"the t…  {'3' * 20}",
    ]


def test_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([], COLUMNS, "json")
    assert capsys.readouterr().out == "[]\n"
    for output, shown in (("ndjson", ""), ("plain", ""), ("csv", "name,count,id\n"), ("table", "")):
        show_rows([], COLUMNS, output)
        assert capsys.readouterr().out == shown


def test_csv_is_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(
        [{"name": 'a,"b"', "count": -3, "id": None}, {"name": "=1+1", "count": 0, "id": "x"}], COLUMNS, "csv"
    )
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert rows[0] == {"name": 'a,"b"', "count": "-3", "id": ""}
    assert rows[1]["name"] == "'=1+1"  # not a formula for a spreadsheet


def test_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("name", "count", "id")

    def draw(screen: Screen) -> None:
        screen.headline("One thing")

    show_one(ROWS[0], names, "plain", draw)
    assert capsys.readouterr().out.splitlines()[1] == "count\t5"
    show_one(ROWS[0], names, "json", draw)
    assert json.loads(capsys.readouterr().out) == ROWS[0]
    show_one(ROWS[0], names, "plain", draw, piped=True)
    assert capsys.readouterr().out == "One thing\n"


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=3), st.integers(24, 90))
def test_a_table_of_any_text_fits_and_steers_nothing(rows: list[tuple[str, str]], room: int) -> None:
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(written):
        patch.setenv("COLUMNS", str(room))
        show_rows([{"name": name, "text": text} for name, text in rows], ("name", "text"), "table")
    lines = written.getvalue().split("\n")
    assert len(lines) == len(rows) + 2
    assert all(cell_len(line) <= room and line.isprintable() for line in lines)


def test_wide_signs_count_twice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    show_rows(
        [{"text": "注文が届きません注文が届きません", "id": "x"}],
        ("text", TableColumn("id", whole=True)),
        "table",
    )
    head, line = capsys.readouterr().out.splitlines()
    assert "…" in line
    assert cell_len(line[: line.index("x")]) == head.index("ID")


def test_markup_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "[red]not red[/red] [link=https://evil.example]x[/link] :boom:"
    show_rows([{"text": evil}], ("text",), "table")
    screen = Screen()
    screen.headline(evil)
    screen.paragraph(evil)
    screen.columns([(evil, evil)])
    assert capsys.readouterr().out.count("[red]not red[/red] [link=https://evil.example]x[/link] :boom:") == 4


def test_without_the_library_for_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain lines, and one hint."""
    monkeypatch.setattr("redrive.cli.output.has_rich", lambda: False)
    _suggest_rich.cache_clear()
    for _ in range(2):
        show_rows(ROWS[:1], COLUMNS, "table")
    written = capsys.readouterr()
    assert written.out.splitlines() == [f"{'a' * 60}\t5\t{'0' * 32}"] * 2
    assert written.err.count("pip install 'redrive[cli]'") == 1


def test_an_empty_cell_of_a_spreadsheet(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(
        [{"queues": [], "detail": {}, "name": None, "sum": "=1+1"}],
        ["queues", "detail", "name", "sum"],
        "csv",
    )
    assert capsys.readouterr().out.splitlines()[1] == ",,,'=1+1"
