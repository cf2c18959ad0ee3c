"""A loop over cases fails with every case that failed, and shows pytest only what is a fixture."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tests.cases import FailedCases, loop_over


def test_every_failing_case_is_named() -> None:
    @loop_over("letter", "abc")
    @loop_over(("number", "even"), [(1, True), (2, True), (3, True)])
    def check(letter: str, number: int, even: bool) -> None:
        if letter == "c":
            pytest.fail("no c")
        assert (number % 2 == 0) is even or letter == "b"

    with pytest.raises(FailedCases) as caught:
        check()
    assert [case.partition(":")[0] for case in caught.value.cases] == [
        "letter='a', number=1, even=True",
        "letter='a', number=3, even=True",
        *(f"letter='c', number={number}, even=True" for number in (1, 2, 3)),
    ]
    assert caught.value.cases[2] == "letter='c', number=1, even=True: Failed: no c"


def test_what_is_no_case_is_a_fixture() -> None:
    @loop_over("letter", "abc")
    def check(tmp_path: Path, letter: str) -> None:
        assert (tmp_path / letter).name == letter

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    check(tmp_path=Path())


def test_a_loop_over_nothing_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="at least one case"):
        loop_over("letter", "")
