"""The formats of the log: short text with stacks on their own lines, and JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lines import Lines, written_to

from redrive.log_line import write_log_line
from redrive.observe.log_format import FORMATS, INDENT, MAX_VALUE_LENGTH

LOGGER = logging.getLogger("redrive.test_format")


@pytest.fixture
def lines() -> Iterator[Lines]:
    with written_to(LOGGER, logging.DEBUG) as written:
        yield written


def written(lines: Lines, log_format: str, hidden: tuple[str, ...] = (), **fields: Any) -> str:
    write_log_line(LOGGER, logging.ERROR, {"event": "step.died", **fields}, hidden)
    return FORMATS[log_format]().format(lines.records[-1])


def test_a_text_line_is_short_and_its_stack_follows_below(lines: Lines) -> None:
    stack = 'Traceback\n  File "shop.py", line 7\n\tValueError: no'
    error = "ValueError: no card\nmore of it"
    text = written(lines, "text", ("rule",), task="charge", attempt=2, error=error, rule="x", stack=stack)
    first, *below = text.splitlines()
    assert first[20:] == 'ERROR step.died task=charge attempt=2 error="ValueError: no card…"'
    assert below == [INDENT + line.expandtabs() for line in stack.splitlines()]
    assert len(written(lines, "text", error="x" * 5_000)) < MAX_VALUE_LENGTH + 60


def test_no_value_can_look_like_another_entry(lines: Lines) -> None:
    text = written(lines, "text", task="a\n2030-01-31 ERROR b", stack="a\r\x1b[2K2030\u2028fake")
    assert [line[:4] for line in text.splitlines()[1:]] == [INDENT] * (len(text.splitlines()) - 1)
    assert "\x1b" not in text
    assert 'run_id="a b=c"' in written(lines, "text", run_id="a b=c")


def test_a_line_of_json_has_every_field(lines: Lines) -> None:
    line = json.loads(written(lines, "json", ("rule",), task="charge", rule="x", stack="a\nb"))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "ERROR",
        "logger": LOGGER.name,
        "event": "step.died",
        "task": "charge",
        "rule": "x",
        "stack": "a\nb",
    }


def test_a_line_of_another_library_is_kept(lines: Lines) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        LOGGER.exception("it failed with %s", 7)
    text, line = (FORMATS[name]().format(lines.records[-1]) for name in ("text", "json"))
    assert "ERROR redrive.test_format it failed with 7\nTraceback" in text
    assert json.loads(line)["message"] == "it failed with 7"
    assert "ValueError: no" in json.loads(line)["stack"]
