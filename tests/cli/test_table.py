"""Tables that fit the terminal, and the same rows for machines."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.cli.cell import cut, padded, width
from redrive.cli.output import Column, show_fields, show_rows

ROWS = [
    {"name": "a" * 60, "count": 5, "id": "0" * 32, "more": {"x": 1}},
    {"name": "b\x1b[31mred\nline", "count": 12_345, "id": "1" * 32, "more": None},
]
COLUMNS = (Column("name"), Column("count"), Column("id", whole=True))


def test_a_table_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert show_rows(ROWS, COLUMNS, "table") == 2
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[0].endswith("…")
    assert all(line.endswith(row["id"]) for line, row in zip(lines[1:], ROWS, strict=True))  # type: ignore[arg-type]
    assert lines[1].index(" 5 ") > lines[2].index("12345")  # numbers end below each other
    assert "\x1b[31m" not in "".join(lines)


def test_what_must_stay_whole_does_so_on_the_narrowest(
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
    assert rows[1]["name"] == "'=1+1"  # no formula for a spreadsheet


def test_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields(ROWS[0], COLUMNS, "plain")
    assert capsys.readouterr().out.splitlines()[1] == "count\t5"
    show_fields(ROWS[0], COLUMNS, "json")
    assert json.loads(capsys.readouterr().out) == ROWS[0]


@given(st.text(), st.integers(2, 40))
def test_a_cell_is_as_wide_as_its_column(text: str, room: int) -> None:
    assert width(padded(cut(text, room), room, False)) in (room, room - 1) or width(text) > room
    assert width(cut(text, room)) <= room


def test_wide_signs_count_twice() -> None:
    assert width("注文") == 4
    assert cut("注文が届きません", 7) == "注文が…"
    assert width("e\u0301") == 1


def test_an_empty_cell_of_a_spreadsheet(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(
        [{"queues": [], "detail": {}, "name": None, "sum": "=1+1"}],
        ["queues", "detail", "name", "sum"],
        "csv",
    )
    assert capsys.readouterr().out.splitlines()[1] == ",,,'=1+1"


def test_signs_without_a_place_of_their_own() -> None:
    assert width("\u0e01\u0e31") == 1
    assert width("\u2764\ufe0f") == 1
