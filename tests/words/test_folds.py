"""Rows that look the same are folded into one."""

from __future__ import annotations

from redrive.words.folds import Fold, fold


def test_rows_with_the_same_look_are_one_at_the_place_of_the_first() -> None:
    folds = fold(["b1", "a1", "b2", "c1", "b3"], lambda row: row[0])
    assert folds == [Fold("b1", ["b2", "b3"]), Fold("a1", []), Fold("c1", [])]
    assert [each.number for each in folds] == [3, 1, 1]
    assert fold([], len) == []
