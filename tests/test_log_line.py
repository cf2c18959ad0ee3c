"""The structured log line: readable, redacted, unforgeable, and harmless for any input."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lines import Lines, written_to

from redrive.log_line import write_log_line

LOGGER = logging.getLogger("redrive.test_structured")


@pytest.fixture
def lines() -> Iterator[Lines]:
    with written_to(LOGGER, logging.DEBUG) as written:
        yield written


def fields_of(record: logging.LogRecord) -> Any:
    return record.fields  # type: ignore[attr-defined]


class TestLine:
    def test_is_the_event_and_its_fields(self, lines: Lines) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "run.queued", "run_id": "7", "attempt": 2})
        assert lines.text == 'run.queued run_id="7" attempt=2'

    def test_carries_the_fields_as_a_dictionary(self, lines: Lines) -> None:
        fields = {"event": "run.queued", "run_id": "7", "attempt": 2}
        write_log_line(LOGGER, logging.INFO, fields)
        assert fields_of(lines.records[0]) == fields

    @pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR])
    def test_has_the_level_and_the_logger(self, lines: Lines, level: int) -> None:
        write_log_line(LOGGER, level, {"event": "x"})
        assert [(record.levelno, record.name) for record in lines.records] == [(level, LOGGER.name)]

    def test_is_found_where_it_was_written(self, lines: Lines) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "x"})
        assert lines.records[0].pathname == __file__

    def test_below_the_level_there_is_none(self, lines: Lines) -> None:
        LOGGER.setLevel(logging.WARNING)
        write_log_line(LOGGER, logging.INFO, {"event": "x"})
        assert lines.records == []

    def test_the_fields_given_stay_as_they_are(self, lines: Lines) -> None:
        fields = {"event": "x", "password": "correct-horse-7"}
        write_log_line(LOGGER, logging.INFO, fields)
        assert fields == {"event": "x", "password": "correct-horse-7"}


class TestSecrets:
    @pytest.mark.parametrize(
        ("fields", "secret"),
        [
            ({"password": "correct-horse-7"}, "correct-horse-7"),
            ({"nested": {"api_key": "Zx81kQpL09aVbbT3"}}, "Zx81kQpL09aVbbT3"),
            ({"error": "could not connect to postgresql://app:hunter2-x9Qz@db/shop"}, "hunter2-x9Qz"),
        ],
    )
    def test_are_in_neither_form(self, lines: Lines, fields: dict[str, Any], secret: str) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "x", **fields})
        assert len(lines.records) == 1
        assert secret not in lines.text
        assert secret not in repr(fields_of(lines.records[0]))


class TestForgery:
    @pytest.mark.parametrize(
        "text", ["a\nb", "a\r\nb", "\x1b[31m", 'q" event="forged', "\u2028", "\x00", "\x85", "\u202e"]
    )
    def test_neither_names_nor_values_nor_the_event_break_out(self, lines: Lines, text: str) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": text, text: 1, "value": text})
        line = lines.records[0].getMessage()
        assert line.isascii()
        assert line.isprintable()
        assert line == f"{json.dumps(text)} {json.dumps(text)}=1 value={json.dumps(text)}"

    def test_readable_text_stays_readable(self, lines: Lines) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "x", "wait": "2 · 2^1 ±25% → ключ"})
        assert lines.records[0].getMessage() == 'x wait="2 · 2^1 ±25% → ключ"'

    def test_a_percent_sign_is_a_percent_sign(self, lines: Lines) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "x", "error": "100 %s %d %(name)s"})
        assert "100 %s %d %(name)s" in lines.text


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class TestHarmless:
    @pytest.mark.parametrize(
        "value",
        [
            object(),
            {1, 2},
            {(1, 2): 3},
            float("nan"),
            b"\xff\x00",
            "\ud800",
            10**400,
            Unprintable(),
            [[[[]]]],
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_any_value(self, lines: Lines, value: object) -> None:
        write_log_line(LOGGER, logging.INFO, {"event": "x", "value": value})
        assert "value=" in lines.text
        assert lines.text.isascii()

    def test_a_value_that_contains_itself(self, lines: Lines) -> None:
        cycle: dict[str, object] = {}
        cycle["itself"] = cycle
        write_log_line(LOGGER, logging.INFO, {"event": "x", "cycle": cycle})
        assert len(lines.records) == 1

    def test_no_event_is_no_line(self, lines: Lines) -> None:
        write_log_line(LOGGER, logging.INFO, {"run_id": "7"})
        assert lines.records == []

    def test_a_filter_that_raises(self, lines: Lines) -> None:
        def broken(record: logging.LogRecord) -> bool:
            raise RuntimeError("broken filter")

        LOGGER.addFilter(broken)
        try:
            write_log_line(LOGGER, logging.INFO, {"event": "x"})
        finally:
            LOGGER.removeFilter(broken)
        assert lines.records == []

    def test_a_record_factory_that_uses_the_name(self, lines: Lines) -> None:
        before = logging.getLogRecordFactory()

        def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            record.fields = "mine"
            return record

        logging.setLogRecordFactory(factory)
        try:
            write_log_line(LOGGER, logging.INFO, {"event": "x", "run_id": "7"})
        finally:
            logging.setLogRecordFactory(before)
        assert lines.text == 'x run_id="7"'
