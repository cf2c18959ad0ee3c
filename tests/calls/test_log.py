"""Log lines: one for a failed attempt, one at the end, none for plain successes; no secrets (G14)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.calls.script import Play, Script
from tests.lines import Lines, written_to

from redrive import Attempt, Backoff, Guard, RetryableError
from redrive.calls import log_fields
from redrive.calls.event import LOGGER, current_log_fields
from redrive.errors import FinalError, HttpStatusError
from redrive.policy import Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())

STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
GITHUB = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0"
    ".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)
SECRETS = [
    (f"charging with {STRIPE} failed", STRIPE),
    (f"token {GITHUB} is not valid", GITHUB),
    (f"Authorization: Bearer {JWT}", JWT),
    ("could not connect to postgresql://app:hunter2-x9Qz@db.internal/shop", "hunter2-x9Qz"),
    ("GET https://api.example.com/v1?api_key=Zx81kQpL09aVbbT3&page=2 failed", "Zx81kQpL09aVbbT3"),
    ('{"password": "correct-horse-7", "user": "ada"}', "correct-horse-7"),
]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with written_to(LOGGER, logging.INFO) as written:
        yield written


def recover(play: Play, error: Exception, **options: Any) -> None:
    play(Script(error, "done"), Guard("work", backoff=AT_ONCE, **options))


class TestLines:
    def test_none_while_all_is_well(self, play: Play, lines: Lines) -> None:
        LOGGER.setLevel(logging.DEBUG)
        for _ in range(3):
            play(Script("done"), Guard("work"))
        assert lines.records == []

    def test_recovery(self, play: Play, lines: Lines) -> None:
        play(Script(RetryableError(), RetryableError(), "done"), Guard("work", backoff=AT_ONCE))
        assert lines.names == [
            ("call.attempt_failed", logging.INFO),
            ("call.attempt_failed", logging.INFO),
            ("call.recovered", logging.INFO),
        ]

    def test_giving_up(self, play: Play, lines: Lines) -> None:
        with pytest.raises(RetryableError):
            play(Script(*[RetryableError() for _ in range(3)]), Guard("work", backoff=AT_ONCE))
        assert lines.names == [
            ("call.attempt_failed", logging.INFO),
            ("call.attempt_failed", logging.INFO),
            ("call.failed", logging.WARNING),
        ]

    def test_a_final_error(self, play: Play, lines: Lines) -> None:
        with pytest.raises(FinalError):
            play(Script(FinalError()), Guard("work"))
        assert lines.names == [("call.failed", logging.WARNING)]

    def test_at_the_level_warning_only_the_end_is_logged(self, play: Play, lines: Lines) -> None:
        LOGGER.setLevel(logging.WARNING)
        recover(play, RetryableError())
        assert lines.records == []
        with pytest.raises(RetryableError):
            play(Script(RetryableError(), RetryableError()), Guard("work", max_attempts=2, backoff=AT_ONCE))
        assert lines.names == [("call.failed", logging.WARNING)]

    def test_cancellation_is_not_worth_a_line(self, lines: Lines) -> None:
        with pytest.raises(KeyboardInterrupt):
            Guard("work").call(Script(KeyboardInterrupt()))
        assert lines.records == []

    def test_the_logger_is_that_of_the_library(self, play: Play, lines: Lines) -> None:
        recover(play, RetryableError())
        assert {record.name for record in lines.records} == {"redrive.calls"}

    def test_the_line_and_the_fields_agree(self, play: Play, lines: Lines, clock: VirtualClock) -> None:
        recover(play, HttpStatusError("answered 503", status=503), clock=clock, idempotency_key="key")
        for record, fields in zip(lines.records, lines.fields, strict=True):
            name, _, rest = record.getMessage().partition(" ")
            event = fields.pop("event")
            pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in fields.items())
            assert (name, rest) == (event, pairs)
            assert name.startswith("call.")

    def test_the_names_of_g14(self, play: Play, lines: Lines, clock: VirtualClock) -> None:
        script = Script(HttpStatusError("answered 404", status=404))
        guard = Guard("look", clock=clock, idempotency_key="k1", fields={"run_id": "7"})
        known = {
            "request_id": "r1",
            "trace_id": "t1",
            "user_id": "u1",
            "org_id": "o1",
            "actor_type": "person",
        }
        with log_fields(**known), pytest.raises(HttpStatusError):
            play(script, guard)
        (fields,) = lines.fields
        expected = known | {
            "run_id": "7",
            "idempotency_key": "k1",
            "operation": "look",
            "attempt": 1,
            "max_attempts": 3,
            "latency_ms": 0.0,
            "http_status": 404,
            "retryable": False,
        }
        assert expected.items() <= fields.items()

    def test_d9_the_line_has_attempt_and_delay(self, play: Play, lines: Lines, clock: VirtualClock) -> None:
        play(Script(TimeoutError(), "done"), Guard("work", clock=clock, random=lambda: 1.0))
        assert (lines.fields[0]["attempt"], lines.fields[0]["wait_ms"]) == (1, 250.0)
        assert lines.fields[1]["attempt"] == 2


class TestLogFields:
    def test_are_those_of_the_block(self, play: Play, lines: Lines) -> None:
        with log_fields(request_id="r1"):
            recover(play, RetryableError())
        recover(play, RetryableError())
        assert [fields.get("request_id") for fields in lines.fields] == ["r1", "r1", None, None]

    def test_nested_blocks_add_up(self) -> None:
        with log_fields(request_id="r1", user_id="u1"):
            with log_fields(user_id="u2", org_id="o1"):
                assert current_log_fields() == {"request_id": "r1", "user_id": "u2", "org_id": "o1"}
            assert current_log_fields() == {"request_id": "r1", "user_id": "u1"}
        assert current_log_fields() == {}

    def test_end_with_the_block_also_after_an_error(self) -> None:
        with pytest.raises(KeyError), log_fields(request_id="r1"):
            raise KeyError
        assert current_log_fields() == {}

    async def test_of_tasks_are_their_own(self, lines: Lines) -> None:
        async def fail_once(attempt: Attempt) -> None:
            await asyncio.sleep(0)
            if attempt.number == 1:
                raise RetryableError

        async def request(name: str) -> None:
            with log_fields(request_id=name):
                await asyncio.sleep(0)
                await Guard("work", backoff=AT_ONCE).call(fail_once)

        await asyncio.gather(request("a"), request("b"), request("c"))
        assert sorted(fields["request_id"] for fields in lines.fields) == ["a", "a", "b", "b", "c", "c"]

    def test_fields_of_the_call_take_precedence(self, play: Play, lines: Lines) -> None:
        with log_fields(operation="mine", attempt="mine", stage_id="mine"):
            recover(play, RetryableError(), fields={"stage_id": "of the guard"})
        assert lines.fields[0]["operation"] == "work"
        assert lines.fields[0]["attempt"] == 1
        assert lines.fields[0]["stage_id"] == "of the guard"

    @pytest.mark.parametrize(
        "name",
        [
            "name",
            "message",
            "args",
            "module",
            "msg",
            "levelname",
            "exc_info",
            "asctime",
            "fields",
            "lineno",
            "taskName",
        ],
    )
    def test_names_that_log_records_use_themselves(self, play: Play, lines: Lines, name: str) -> None:
        with log_fields(**{name: "mine"}):
            recover(play, RetryableError(), fields={name: "of the guard"})
        assert lines.fields[0][name] == "of the guard"
        assert lines.records[0].name == "redrive.calls"

    @pytest.mark.parametrize(
        "value",
        [
            object(),
            {1, 2},
            {(1, 2): 3, None: 4, 5.5: 6},
            float("nan"),
            b"\xff\x00",
            "\ud800",
            10**400,
            Exception("x"),
            [[[[]]]],
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_any_value(self, play: Play, lines: Lines, value: object) -> None:
        with log_fields(thing=value):
            recover(play, RetryableError())
        assert [name for name, _ in lines.names] == ["call.attempt_failed", "call.recovered"]
        assert "thing=" in lines.text
        lines.text.encode("ascii")

    def test_values_that_cannot_be_printed(self, play: Play, lines: Lines) -> None:
        class Unprintable:
            def __str__(self) -> str:
                raise RuntimeError("no")

            __repr__ = __str__

        cycle: dict[str, object] = {}
        cycle["itself"] = cycle
        error = FinalError("mine")
        with log_fields(thing=Unprintable(), cycle=cycle), pytest.raises(FinalError) as caught:
            play(Script(error), Guard("work", fields={"deep": _deep(100_000)}))
        assert caught.value is error
        assert lines.names == [("call.failed", logging.WARNING)]
        assert lines.fields[0]["operation"] == "work"

    @pytest.mark.parametrize("key", ["two\nlines", "a b", "x=1 forged", "\x1b[31m", "ключ"])
    def test_names_cannot_forge_a_line(self, play: Play, lines: Lines, key: str) -> None:
        with log_fields(**{key: "value"}):
            recover(play, RetryableError())
        assert lines.fields[0][key] == "value"
        for record in lines.records:
            line = record.getMessage()
            assert line.isascii()
            assert line.isprintable()
            assert f" {key}=" not in line


class TestHarmless:
    """A broken logging configuration does not affect calls."""

    def test_a_filter_that_raises(self, play: Play, lines: Lines) -> None:
        def broken(record: logging.LogRecord) -> bool:
            raise RuntimeError("broken filter")

        LOGGER.addFilter(broken)
        try:
            assert play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE)) == "done"
            error = FinalError("mine")
            with pytest.raises(FinalError) as caught:
                play(Script(error), Guard("work", hooks=[_raise]))
        finally:
            LOGGER.removeFilter(broken)
        assert caught.value is error
        assert caught.value.__context__ is None

    def test_a_handler_that_raises(self, play: Play, lines: Lines) -> None:
        class Broken(logging.Handler):
            def handle(self, record: logging.LogRecord) -> bool:
                raise RuntimeError("broken handler")

        handler = Broken()
        LOGGER.addHandler(handler)
        try:
            assert play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE)) == "done"
        finally:
            LOGGER.removeHandler(handler)

    def test_a_log_record_factory_of_the_application(self, play: Play, lines: Lines) -> None:
        """Some set their own attributes on every record, even one called `fields`."""
        before = logging.getLogRecordFactory()

        def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            record.fields = "mine"
            return record

        logging.setLogRecordFactory(factory)
        try:
            assert play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE)) == "done"
        finally:
            logging.setLogRecordFactory(before)
        assert [name for name, _ in lines.names] == ["call.attempt_failed", "call.recovered"]


class TestSecrets:
    @pytest.mark.parametrize(("message", "secret"), SECRETS)
    def test_in_the_message_of_an_error(self, play: Play, lines: Lines, message: str, secret: str) -> None:
        recover(play, ConnectionError(message))
        with pytest.raises(FinalError):
            play(Script(FinalError(message)), Guard("work"))
        assert len(lines.records) == 3
        assert secret not in lines.text
        assert secret not in repr(lines.fields)

    def test_in_fields(self, play: Play, lines: Lines) -> None:
        with log_fields(password="correct-horse-7", nested={"api_key": "Zx81kQpL09aVbbT3"}):
            recover(play, RetryableError(), fields={"authorization": f"Bearer {JWT}"})
        for secret in ("correct-horse-7", "Zx81kQpL09aVbbT3", JWT):
            assert secret not in lines.text
            assert secret not in repr(lines.fields)

    def test_in_the_error_of_a_hook(self, play: Play) -> None:
        """A hook that fails with the message in its error must not reveal it."""

        def hook(event: Any) -> None:
            raise RuntimeError(f"could not pass on {event.failure.message}")

        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        LOGGER.addHandler(handler)
        try:
            with pytest.raises(FinalError):
                play(Script(FinalError(STRIPE)), Guard("work", hooks=[hook]))
        finally:
            LOGGER.removeHandler(handler)
        assert "call.hook_failed" in stream.getvalue()
        assert STRIPE not in stream.getvalue()

    def test_values_that_are_not_secrets_stay(self, play: Play, lines: Lines) -> None:
        key = "billing:user-17:order-4711:charge:1"
        recover(play, ConnectionError("connection to 10.0.0.7:5432 was reset"), idempotency_key=key)
        assert lines.fields[0]["idempotency_key"] == key
        assert lines.fields[0]["error"] == "ConnectionError: connection to 10.0.0.7:5432 was reset"


class TestForgery:
    @pytest.mark.parametrize(
        "message",
        [
            "one\nWARNING redrive.calls call.failed operation=forged",
            "one\r\ntwo",
            "one\x0btwo\x0cthree",
            "one\u2028two\u2029three",
            "one\x85two",
            'quote" operation="forged',
            "\x1b[2J\x1b[31mred",
            "\x00",
        ],
    )
    def test_a_message_stays_in_its_line_and_in_its_quotes(
        self, play: Play, lines: Lines, message: str
    ) -> None:
        recover(play, ConnectionError(message))
        line = lines.records[0].getMessage()
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        quoted = line.partition(" error=")[2]
        assert json.loads(quoted) == f"ConnectionError: {message}"
        assert line.count("operation=") - quoted.count("operation=") == 1

    def test_an_operation_stays_in_its_quotes(self, play: Play, lines: Lines) -> None:
        play(Script(RetryableError(), "done"), Guard('a\nb" c=1', backoff=AT_ONCE))
        assert all(record.getMessage().isprintable() for record in lines.records)

    def test_a_percent_sign_is_a_percent_sign(self, play: Play, lines: Lines) -> None:
        recover(play, ConnectionError("100 %s %d %(name)s"))
        assert "100 %s %d %(name)s" in lines.text

    def test_a_long_message_is_cut(self, play: Play, lines: Lines) -> None:
        recover(play, ConnectionError("x" * 1_000_000))
        assert len(lines.records[0].getMessage()) < 10_000


def _deep(depth: int) -> object:
    value: object = "bottom"
    for _ in range(depth):
        value = [value]
    return value


def _raise(event: object) -> None:
    raise RuntimeError("broken hook")
