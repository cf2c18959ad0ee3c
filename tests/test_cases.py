"""A loop over cases reports every case that failed, and shows pytest only real fixtures."""

from __future__ import annotations

import asyncio
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


async def test_an_async_test_is_awaited_for_every_case() -> None:
    seen = []

    @loop_over("letter", "ab")
    @loop_over("number", [1, 2])
    async def check(letter: str, number: int) -> None:
        await asyncio.sleep(0)
        seen.append(f"{letter}{number}")
        assert number == 1

    with pytest.raises(FailedCases) as caught:
        await check()
    assert seen == ["a1", "a2", "b1", "b2"]
    assert [case.partition(":")[0] for case in caught.value.cases] == [
        "letter='a', number=2",
        "letter='b', number=2",
    ]


def test_a_parameter_without_cases_is_a_fixture() -> None:
    @loop_over("letter", "abc")
    def check(tmp_path: Path, letter: str) -> None:
        assert (tmp_path / letter).name == letter

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    check(tmp_path=Path())


def test_a_loop_without_cases_is_an_error() -> None:
    with pytest.raises(AssertionError, match="at least one case"):
        loop_over("letter", "")
