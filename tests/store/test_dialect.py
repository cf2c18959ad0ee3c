"""Placeholders in SQL texts: columns and batches derived from row classes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import pytest
from tests.cases import loop_over

from redrive.model.field import BigInt
from redrive.store.dialect import for_postgres, for_sqlite, with_columns


class Color(StrEnum):
    RED = "red"


class Thing(NamedTuple):
    id: str
    token: BigInt
    size: int
    weight: float | None
    color: Color
    broken: bool

    @property
    def label(self) -> str:
        return f"{self.color} {self.id}"


def thing(name: str) -> type:
    return {"Thing": Thing}[name]


@pytest.mark.parametrize(
    ("placeholder", "expected"),
    [
        ("{columns:Thing}", "id, token, size, weight, color, broken"),
        ("{columns:Thing except token, broken}", "id, size, weight, color"),
        ("{columns:Thing t except token,\n    size, weight, broken}", "t.id, t.color"),
        (
            "{assign:Thing except id, token, size, weight}",
            "color = excluded.color, broken = excluded.broken",
        ),
    ],
)
def test_columns_are_the_fields_of_the_class(placeholder: str, expected: str) -> None:
    assert with_columns(f"SELECT {placeholder} FROM things", thing) == f"SELECT {expected} FROM things"


def test_a_class_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(KeyError):
        with_columns("{columns:Thong}", thing)


def test_postgresql_takes_a_batch_as_typed_arrays() -> None:
    assert for_postgres("FROM {batch:Thing}", thing) == (
        "FROM unnest(CAST(:id AS text[]), CAST(:token AS bigint[]), CAST(:size AS integer[]), "
        "CAST(:weight AS double precision[]), CAST(:color AS text[]), CAST(:broken AS integer[])) "
        "AS batch (id, token, size, weight, color, broken)"
    )


def test_a_batch_of_some_columns_may_name_properties() -> None:
    assert for_postgres("JOIN {batch:Thing only id, label} ON true", thing) == (
        "JOIN unnest(CAST(:id AS text[]), CAST(:label AS text[])) AS batch (id, label) ON true"
    )


@loop_over(
    ("text", "expected"),
    [
        (
            "UPDATE redrive.runs AS run SET a = batch.size\nFROM {batch:Thing}\n"
            "WHERE run.id = batch.id\nRETURNING run.id",
            "UPDATE runs AS run SET a = :size\nWHERE run.id = :id\nRETURNING id",
        ),
        (
            "INSERT INTO redrive.t (id) SELECT batch.id\nFROM {batch:Thing}\nON CONFLICT DO NOTHING",
            "INSERT INTO t (id) VALUES (:id)\nON CONFLICT DO NOTHING",
        ),
        (
            "INSERT INTO redrive.t (id, n)\nSELECT batch.id, (SELECT max(n) FROM redrive.t)\n"
            "FROM {batch:Thing}",
            "INSERT INTO t (id, n)\nSELECT :id, (SELECT max(n) FROM t)\nWHERE true",
        ),
        (
            "SELECT run.id FROM redrive.runs AS run\n"
            "JOIN {batch:Thing only id} ON run.id = batch.id\nFOR UPDATE OF run",
            "SELECT run.id FROM runs AS run\nWHERE run.id = :id",
        ),
        (
            "SELECT batch.id FROM {batch:Thing}\nJOIN redrive.runs AS run ON run.id = batch.id",
            "SELECT :id FROM runs AS run\nWHERE run.id = :id",
        ),
        (
            "SELECT a.id FROM a AS a\nJOIN {batch:Thing only id} ON a.id = batch.id\n"
            "LEFT JOIN b ON b.id = a.b\nWHERE a.org = :org\nORDER BY a.id",
            "SELECT a.id FROM a AS a\nLEFT JOIN b ON b.id = a.b\n"
            "WHERE a.id = :id AND a.org = :org\nORDER BY a.id",
        ),
        ("SELECT 1 FROM t\nFOR UPDATE OF a, b SKIP LOCKED", "SELECT 1 FROM t"),
        ("WHERE id IN {items:ids}", "WHERE id IN (SELECT value FROM json_each(:ids))"),
    ],
)
def test_sqlite_executes_a_batch_row_by_row_and_locks_nothing(text: str, expected: str) -> None:
    assert for_sqlite(text) == expected


def test_items_of_a_json_list_on_postgresql() -> None:
    assert for_postgres("IN {items:ids}", thing) == (
        "IN (SELECT json_array_elements_text(CAST(:ids AS json)) AS value)"
    )
