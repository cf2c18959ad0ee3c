"""Stored tracebacks, parsed again, with the application's frames first."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

import redrive
from redrive.engine.evidence import clean
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.policy.stack import MAX_EXCEPTIONS, MAX_FRAMES, Stack, stack_of

JAVA = """java.lang.IllegalStateException: no card
\tat com.example.Shop.charge(Shop.java:12)
\tat com.example.Shop.main(Shop.java:3)
Caused by: java.io.IOException: closed
\t... 1 more"""
NODE = (
    "Error: no card\n    at charge (/srv/shop/charge.js:12:7)\n    at Object.<anonymous> (/srv/shop/x.js:3:1)"
)
GO = "panic: no card\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/shop/main.go:12 +0x1d"


def printed(function: Callable[[], object]) -> str:
    try:
        function()
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError


def direct() -> None:
    try:
        int("x")
    except ValueError as error:
        raise KeyError("no such order") from error


def handling() -> None:
    try:
        direct()
    except KeyError:
        json.loads("{")


def endless() -> None:
    endless()


def broken() -> None:
    compile("a = = 1", "settings.py", "exec")


def grouped() -> None:
    errors: list[Exception] = []
    for each in (direct, handling):
        try:
            each()
        except Exception as error:
            errors.append(error)
    inner = ExceptionGroup("inner", [errors[0]])
    raise ExceptionGroup("outer", [inner, errors[1]]) from errors[0]


def kinds(stack: Stack) -> list[str]:
    return [each.message.partition(":")[0] for each in stack.exceptions]


def test_the_frames_of_the_application_come_first_and_deepest_first() -> None:
    [*_, caught] = stack_of(printed(lambda: json.loads("{"))).exceptions
    assert caught.message.startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert [each.function for each in caught.application] == ["<lambda>", "printed"]
    assert caught.application[0].name == "test_stack.py"
    assert caught.application[0].folder.endswith("/")
    assert 'printed(lambda: json.loads("{"))' in caught.application[0].code[0]
    assert [each.function for each in caught.libraries] == ["raw_decode", "decode", "loads"]
    assert not any("^" in line for each in caught.libraries for line in each.code)


def test_the_caught_exception_comes_before_its_causes() -> None:
    told = stack_of(printed(handling)).exceptions
    assert kinds(stack_of(printed(handling))) == ["json.decoder.JSONDecodeError", "KeyError", "ValueError"]
    assert [each.relation for each in told] == ["", "while_handling", "caused_by"]
    assert told[1].message == "KeyError: 'no such order'"


def test_a_group_comes_before_its_members_and_each_before_its_causes() -> None:
    told = stack_of(printed(grouped)).exceptions
    assert [(each.depth, each.member, each.relation) for each in told] == [
        (0, "", ""),
        (1, "1", ""),
        (2, "1", ""),
        (2, "", "caused_by"),
        (1, "2", ""),
        (1, "", "while_handling"),
        (1, "", "caused_by"),
        (0, "", "caused_by"),
    ]
    assert told[0].message == "ExceptionGroup: outer (2 sub-exceptions)"
    assert told[4].message.startswith("json.decoder.JSONDecodeError")
    assert told[4].application[0].function == "handling"
    assert [each.function for each in told[4].libraries] == ["raw_decode", "decode", "loads"]


def test_a_recursive_function_has_its_number_of_calls() -> None:
    [told] = stack_of(printed(endless)).exceptions
    assert told.application[0].repeated > 500
    assert len(told.application) < 10


def test_where_the_code_cannot_be_read_belongs_to_the_message() -> None:
    [told] = stack_of(printed(broken)).exceptions
    assert told.message.splitlines()[0] == '  File "settings.py", line 1'
    assert told.message.splitlines()[-1] == "SyntaxError: invalid syntax"
    assert [each.function for each in told.application] == ["broken", "printed"]


def test_a_message_of_many_lines_stays_whole() -> None:
    text = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    g()\n'
    text += 'ValueError: first\n\n  File "/srv/b.py", line 2, in looks_like_a_frame\n    second\nlast'
    [told] = stack_of(text).exceptions
    assert [each.function for each in told.application] == ["f"]
    assert told.message.splitlines()[0] == "ValueError: first"
    assert told.message.splitlines()[-1] == "last"


def test_the_omitted_characters_are_counted() -> None:
    frames = "".join(f'  File "/srv/a{n}.py", line {n}, in f{n}\n    call({n})\n' for n in range(2_000))
    text = f"Traceback (most recent call last):\n{frames}ValueError: too deep"
    [told] = stack_of(clean(text, 4_000, DEFAULT_REDACTOR)).exceptions
    assert told.omitted > len(text) - 4_000
    assert told.application[0].function == "f1999"
    assert told.application[-1].function == "f0"
    assert all(each.code == (f"call({each.line})",) for each in told.application if each.code)


@loop_over("line", ["… 1,234 characters left out …", "… 1,234 characters omitted …"])
def test_an_omission_is_recognized_in_any_words(line: str) -> None:
    text = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n{line}\nValueError: x'
    [raised] = stack_of(text).exceptions
    assert (raised.omitted, raised.message) == (1_234, "ValueError: x")


@pytest.mark.parametrize("text", [JAVA, NODE, GO, "", "ValueError: alone", "  \n ", "Traceback: lost"])
def test_text_that_is_not_understood_stays_unchanged(text: str) -> None:
    assert stack_of(text) == Stack((), text.rstrip())


def test_an_empty_text_has_no_exceptions() -> None:
    assert stack_of(None) == Stack((), "")


@loop_over(
    ("file", "application"),
    [
        ("/srv/shop/charge.py", True),
        ("C:\\shop\\charge.py", True),
        ("/srv/redrive/charge.py", True),
        ("<string>", True),
        ("/srv/venv/lib/python3.12/site-packages/httpx/_client.py", False),
        ("C:\\Python312\\Lib\\site-packages\\httpx\\_client.py", False),
        ("/usr/lib/python3.11/json/decoder.py", False),
        ("<frozen importlib._bootstrap>", False),
        (str(Path(redrive.__file__).parent / "engine" / "invoke.py"), False),
    ],
)
def test_the_owner_of_a_frame(file: str, application: bool) -> None:
    [told] = stack_of(
        f'Traceback (most recent call last):\n  File "{file}", line 3, in f\n    x\nE: y'
    ).exceptions
    assert (len(told.application), len(told.libraries)) == ((1, 0) if application else (0, 1))


def test_it_is_bounded() -> None:
    frames = '  File "/srv/a.py", line 1, in f\n    g()\n' * 400
    one = f"Traceback (most recent call last):\n{frames}ValueError: x\n"
    told = stack_of(one * 50)
    assert (len(told.exceptions), told.left) == (MAX_EXCEPTIONS, 50 - MAX_EXCEPTIONS)
    assert {len(each.application) for each in told.exceptions} == {MAX_FRAMES}


LINES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        "  + Exception Group Traceback (most recent call last):",
        "  | Traceback (most recent call last):",
        '  File "/srv/a.py", line 1, in f',
        '  |   File "/srv/a.py", line 1, in f',
        "    code()",
        "  +-+---------------- 1 ----------------",
        "    +---------------- ... ----------------",
        "    +------------------------------------",
        "The above exception was the direct cause of the following exception:",
        "  [Previous line repeated 3 more times]",
        "… 1,234 characters left out …",
        "ValueError: x",
        "",
        "\t",
    ]
)


@given(st.lists(LINES | st.text(max_size=30), max_size=40).map("\n".join))
def test_no_text_is_too_strange(text: str) -> None:
    """Every frame of any text appears once, and no part of the text is lost."""
    told = stack_of(text)
    assert told.text == text.rstrip()
    assert told.frames <= text.count("File ")
