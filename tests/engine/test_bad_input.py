"""Bad input: a clear error for each kind, and no lost work."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cases import loop_over
from tests.engine.workbench import EventCollector, app_at, bench, check_ended, new_app, settle, sql, working

from redrive.engine.context import Context
from redrive.errors import (
    ConflictError,
    InvalidValueError,
    NotFoundError,
    NotStorableError,
    PayloadError,
    RedriveError,
    RunFailedError,
)
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import StoreFailed
from redrive.parts import parts_of
from redrive.policy.codec import JsonLimits
from redrive.testing import EPOCH


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Thing:
    pass


UNSTORABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "an object": (Thing, "Thing"),
    "an object inside": (lambda: {"a": [1, {"b": Thing()}]}, r"\$\.a\[1\]\.b"),
    "a set of objects": (lambda: {Thing()}, "Thing"),
    "not a number": (lambda: float("nan"), "nan"),
    "infinity": (lambda: {"x": float("inf")}, "inf"),
    "a number with too many digits": (lambda: 10**1000, "digits|bits|large"),
    "a cycle": (cyclic, "cycle|nested|levels"),
    "too deep": (lambda: nested(65), "levels|deep|nest"),
    "very much too deep": (lambda: nested(100_000), "levels|deep|nest"),
    "too large": (lambda: "x" * 1_100_000, "1,048,576|bytes|large"),
    "too many": (lambda: [0] * 100_001, "100,000|entries|items"),
    "keys that are none": (lambda: {(1, 2): 3}, "key"),
    "a function": (lambda: print, "function|builtin"),
    "a generator": (lambda: (number for number in range(3)), "generator"),
    "a class": (lambda: Thing, "type"),
    "an exception": (lambda: ValueError("x"), "ValueError"),
}


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_a_result_that_cannot_be_stored_is_a_final_failure_of_the_step(name: str) -> None:
    make, message = UNSTORABLE[name]
    app = new_app()

    @app.task
    async def bad() -> Any:
        return make()

    @app.task
    async def good() -> str:
        return "good"

    async with bench(app) as test:
        run, other = await app.start(bad), await app.start(good)
        await test.drain()
        assert await other.result() == "good"
        letter = await run.dead_letter()
        await check_ended(app, 2)
    assert letter is not None
    assert (letter.attempts, letter.reason, letter.category) == (1, "final_error", "validation")
    assert "NotStorableError" in letter.error_type
    assert re.search(message, letter.message), letter.message


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_a_payload_that_cannot_be_stored_is_refused_at_the_start(name: str) -> None:
    make, message = UNSTORABLE[name]
    app = new_app()

    @app.task
    async def echo(value: Any) -> Any:
        return value

    async with bench(app) as test:
        with pytest.raises(NotStorableError, match=message):
            await app.start(echo, make())
        with pytest.raises(NotStorableError, match=message):
            await app.start_many(echo, [1, make(), 2])
        with pytest.raises(NotStorableError):
            await app.start(echo, 1, metadata={"it": make()})
        await test.assert_nothing_started()


@pytest.mark.parametrize(
    "value",
    [
        "nul \x00 and lone \ud800 surrogate \udfff",
        {"k\x00ey": "\ud83d"},
        2**63,
        -(2**200),
        "␛0000",
        "",
        {"": ""},
        [],
        1e308,
        -0.0,
        nested(60),
        "x" * 1_000_000,
        "\u2028\U0010ffff",
        0.1 + 0.2,
    ],
    ids=lambda value: ascii(value)[:20],
)
async def test_odd_values_come_back_as_they_are(value: Any) -> None:
    app = new_app()

    @app.task
    async def echo(value: Any) -> Any:
        return value

    app.workflow("twice", [echo.step("a"), echo.step("b")])
    async with bench(app) as test:
        assert await test.execute("twice", value) == value


async def test_limits_hold_exactly() -> None:
    app = new_app(limits=JsonLimits(size=1_024))

    @app.task
    async def echo(value: Any) -> Any:
        return value

    @app.task
    async def grow(value: int) -> str:
        return "x" * value

    async with bench(app) as test:
        assert await test.execute(echo, "x" * 1_022) == "x" * 1_022
        with pytest.raises(NotStorableError, match="1,024"):
            await app.start(echo, "x" * 1_023)
        assert len(await test.execute(grow, 1_022)) == 1_022
        with pytest.raises(RunFailedError, match="1,024"):
            await test.execute(grow, 1_023)


async def test_a_payload_beyond_the_usual_limits_can_still_become_a_dead_letter() -> None:
    app = new_app(limits=JsonLimits(size=10_000_000))

    @app.task
    async def fail(value: Any) -> None:
        raise ValueError("no")

    async with bench(app) as test:
        run = await app.start(fail, {"text": "x" * 5_000_000})
        await test.drain()
        assert await run.dead_letter() is not None
        await check_ended(app, 1)


# Exceptions of tasks


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text either")


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]

    __repr__ = __str__


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit("in the middle of a text")


class Huge(Exception):
    def __str__(self) -> str:
        return "y" * 50_000_000


class OddAttributes(Exception):
    status_code = 10**30
    retry_after = Thing()
    code = b"\xff"

    @property
    def response(self) -> Any:
        raise KeyError("no response")


def chain(length: int) -> BaseException:
    error: BaseException = ValueError("the first")
    for number in range(length):
        outer = ValueError(number)
        outer.__cause__ = error
        error = outer
    return error


def ring() -> BaseException:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    return first


def group(depth: int) -> BaseException:
    error: Exception = ValueError("inside")
    for _ in range(depth):
        error = ExceptionGroup("group", [error, ConnectionError()])
    return error


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "hostile": (Hostile, "unknown_error"),
    "without text": (NoText, "unknown_error"),
    "exiting": (Exiting, "unknown_error"),
    "huge": (Huge, "unknown_error"),
    "odd attributes": (OddAttributes, "unknown_error"),
    "nul and surrogates": (lambda: ValueError("a\x00b\ud800c"), "final_error"),
    "a long chain": (lambda: chain(10_000), "final_error"),
    "a ring": (ring, "final_error"),
    "a group": (lambda: group(3), "final_error"),
    "a deep group": (lambda: group(2_000), "final_error"),
    "a group of retryables": (lambda: ExceptionGroup("g", [ConnectionError()] * 3), "attempts_spent"),
    "StopIteration": (lambda: StopIteration(5), "unknown_error"),
    "StopAsyncIteration": (StopAsyncIteration, "unknown_error"),
    "RecursionError": (RecursionError, "unknown_error"),
    "MemoryError": (MemoryError, "attempts_spent"),
    "AssertionError": (lambda: AssertionError("x"), "unknown_error"),
    "a type": (lambda: TypeError(), "unknown_error"),
    "unicode": (lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "final_error"),
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_a_task_raises_is_kept_and_harms_nothing_else(name: str, is_async: bool) -> None:
    make, reason = RAISED[name]
    app = new_app()

    def bad() -> None:
        raise make()

    async def bad_async() -> None:
        raise make()

    async def bad_later() -> None:
        await asyncio.sleep(0)
        raise make()

    functions: list[Callable[[], Any]] = [bad_async, bad_later] if is_async else [bad]
    tasks = [app.task(function) for function in functions]

    @app.task
    async def good() -> str:
        return "good"

    async with bench(app) as test:
        runs = [await app.start(task) for task in tasks]
        other = await app.start(good)
        await settle(test, app)
        assert await other.result() == "good"
        await check_ended(app, len(runs) + 1)
        for run in runs:
            check_letter(await run.dead_letter(), reason)
            [*_, last] = (await run.history()).attempts
            assert last.outcome == "failed"


def check_letter(letter: DeadLetter | None, reason: str) -> None:
    assert letter is not None
    assert letter.reason == reason
    assert letter.error_type
    assert len(letter.message) <= 4_100
    assert len(letter.stack) <= 33_000
    assert "\x00" not in letter.message + letter.stack + letter.title
    (letter.message + letter.stack + letter.title + letter.public_message).encode()


INTERRUPTIONS: dict[str, Callable[[], BaseException]] = {
    "CancelledError": asyncio.CancelledError,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "a group of them": lambda: BaseExceptionGroup("g", [SystemExit(1), KeyboardInterrupt()]),
}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("name", INTERRUPTIONS)
async def test_a_task_that_interrupts_itself_has_failed_like_any_other(name: str, is_async: bool) -> None:
    app = new_app()
    moments: list[float] = []

    def cancel() -> None:
        moments.append(test.clock.time)
        raise INTERRUPTIONS[name]()

    async def cancel_async() -> None:
        await asyncio.sleep(0)
        cancel()

    task = app.task(max_attempts=3)(cancel_async if is_async else cancel)
    async with bench(app) as test:
        run = await app.start(task)
        await settle(test, app)
        check_letter(await run.dead_letter(), "attempts_spent")
        await check_ended(app, 1)
    assert len(moments) == 3


async def test_real_recursion_without_end_is_a_failure_like_any_other() -> None:
    app = new_app()

    @app.task
    def endless(number: int = 0) -> int:
        return int(endless(number + 1)) + 1

    async with bench(app) as test:
        run = await app.start(endless)
        await test.drain()
        check_letter(await run.dead_letter(), "unknown_error")


async def test_a_sync_function_that_gives_a_coroutine_is_awaited_in_tests_as_in_a_worker(
    tmp_path: Path,
) -> None:
    async def inner(number: int) -> int:
        return number + 1

    def outer(number: int) -> Any:
        return inner(number)

    in_test = new_app()
    in_test.task(outer)
    async with bench(in_test) as test:
        assert await test.execute("outer", 1) == 2
    real = app_at(tmp_path / "work.db")
    real.task(outer)
    async with working(real):
        run = await real.start("outer", 1)
        assert await run.result(5) == 2


# Names and options


def test_generators_classes_and_other_things_are_refused_as_tasks() -> None:
    app = new_app()

    def generator() -> Any:
        yield 1

    async def async_generator() -> Any:
        yield 1

    for odd in (generator, async_generator, Thing, 5, "name", None.__class__, partial(generator)):
        with pytest.raises(InvalidValueError):
            app.task(name="odd")(odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="name"):
        app.task(lambda: 1)
    assert parts_of(app).registry.tasks == {}


@loop_over(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": -1},
        {"timeout": "10"},
        {"retry": "often"},
        {"when_exhausted": "shrug"},
        {"effect": "maybe"},
        {"isolation": "planet"},
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency_key": str},
        {"queue": ""},
        {"queue": "a\x00b"},
        {"queue": "x" * 101},
        {"breaker": "ä"},
        {"name": "\ud800"},
        {"name": " leading"},
        {"classifier": ValueError},
        {"retires": 3},
        {"max_attempt": 3},
    ],
)
def test_options_of_a_task_are_checked_when_it_is_registered(options: dict[str, Any]) -> None:
    app = new_app()

    async def work() -> None: ...

    with pytest.raises((InvalidValueError, TypeError), match=next(iter(options))):
        app.task(**options)(work)
    assert parts_of(app).registry.tasks == {}
    assert parts_of(app).registry.workflows == {}


def test_a_second_task_of_the_same_name_is_refused() -> None:
    app = new_app()

    async def work() -> None: ...

    app.task(work)
    with pytest.raises(InvalidValueError, match="'work' already"):
        app.task(work)
    app.task(name="work 2")(work)
    app.workflow("flow", [parts_of(app).registry.tasks["work"]])
    with pytest.raises(InvalidValueError, match="'flow' already"):
        app.task(name="flow")(work)
    assert sorted(parts_of(app).registry.tasks) == ["work", "work 2"]


BAD_OPTIONS: list[dict[str, Any]] = [
    {"delay": -1},
    {"delay": float("nan")},
    {"delay": float("inf")},
    {"delay": "5"},
    {"delay": None},
    {"delay": 11 * 365 * 86_400},
    {"at": datetime(2030, 1, 1)},  # noqa: DTZ001
    {"at": datetime.max.replace(tzinfo=UTC)},
    {"at": datetime.min.replace(tzinfo=UTC)},
    {"at": float("nan")},
    {"at": float("inf")},
    {"at": -1.0},
    {"at": 1e18},
    {"at": "tomorrow"},
    {"at": EPOCH, "delay": 5.0},
    {"priority": 101},
    {"priority": -101},
    {"priority": 1.0},
    {"priority": True},
    {"priority": None},
    {"key": ""},
    {"key": "x" * 256},
    {"key": "a\nb"},
    {"delay": timedelta(seconds=-1)},
    {"delay": timedelta(days=4_000)},
    {"key": "a\x00b"},
    {"key": "\ud800"},
    {"key": 5},
    {"org": ""},
    {"org": None},
    {"org": "a\x00"},
    {"org": "x" * 101},
    {"org": "../etc/passwd\n"},
    {"correlation_id": ""},
    {"correlation_id": 7},
    {"correlation_id": "x" * 256},
    {"tags": "word"},
    {"tags": [""]},
    {"tags": [1]},
    {"tags": ["x"] * 51},
    {"tags": 5},
    {"tags": ["x" * 2_000_000]},
    {"metadata": 5},
    {"metadata": "text"},
    {"metadata": [1]},
    {"metadata": {"x": Thing()}},
    {"metadata": {1: float("nan")}},
    {"queue": ""},
    {"queue": 5},
    {"prioriti": 5},
    {"idempotency_key": "x"},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=lambda options: ascii(options)[:40])
async def test_odd_options_of_a_start_are_refused(options: dict[str, Any]) -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        with pytest.raises((InvalidValueError, NotFoundError)) as caught:
            await app.start(work, **options)
        assert len(str(caught.value)) < 10_000
        with pytest.raises((InvalidValueError, NotFoundError)):
            await app.start_many(work, [None, None], **options)
        await test.assert_nothing_started()


async def test_times_in_the_past_are_due_now_and_far_ones_are_waited_for() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app) as test:
        past = await app.start(work, at=datetime(1999, 1, 1, tzinfo=UTC))
        zero = await app.start(work, at=0)
        soon = await app.start(work, at=datetime.fromtimestamp(EPOCH, UTC) + timedelta(seconds=5))
        far = await app.start(work, at=datetime.fromtimestamp(EPOCH, UTC) + timedelta(days=3_000))
        assert await test.drain() == 2
        assert [await run.state() for run in (past, zero, soon, far)] == ["SUCCESS"] * 2 + ["PENDING"] * 2
        assert (await soon.view()).due_at == EPOCH + 5
        assert await test.advance(5) == 1
        assert (await far.view()).due_at == EPOCH + 3_000 * 86_400


async def test_a_delay_can_be_a_timedelta() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app):
        run = await app.start(work, delay=timedelta(minutes=1, seconds=30))
        [other] = await app.start_many(work, [None], delay=timedelta(seconds=90))
        at_a_time = await app.start(work, delay=timedelta(0), at=EPOCH + 5)
        due = [(await handle.view()).due_at for handle in (run, other, at_a_time)]
        assert due == [EPOCH + 90, EPOCH + 90, EPOCH + 5]
        for seconds in (-1.0, 1e12):
            message = f"delay must be a number of seconds from 0 to 315,360,000, got {seconds!r}"
            with pytest.raises(InvalidValueError) as caught:
                await app.start(work, delay=timedelta(seconds=seconds))
            assert str(caught.value) == message
            with pytest.raises(InvalidValueError) as caught:
                await app.start(work, delay=seconds)
            assert str(caught.value) == message
        with pytest.raises(InvalidValueError, match="pass either delay or at, not both"):
            await app.start(work, delay=timedelta(seconds=1), at=EPOCH + 5)


async def test_a_run_can_be_waited_for_with_a_timedelta() -> None:
    app = new_app()

    @app.task
    async def work() -> str:
        return "done"

    async with bench(app):
        late = await app.start(work, delay=3600.0)
        for waiting in (late.wait, late.result):
            with pytest.raises(TimeoutError, match=r"is still pending after -0\.5 s"):
                await waiting(timedelta(milliseconds=-500))
        soon = await app.start(work)
        assert await soon.wait(timedelta(minutes=1)) == "SUCCESS"
        assert await soon.result(timeout=timedelta(minutes=1)) == "done"


async def test_unknown_names_are_refused_with_a_suggestion() -> None:
    app = new_app(queues=["express"])

    @app.task
    async def charge() -> None: ...

    async with bench(app) as test:
        with pytest.raises(NotFoundError, match="'chrage'; did you mean 'charge'"):
            await app.start("chrage")
        with pytest.raises(NotFoundError, match="use one of: charge"):
            await app.start("zzz")
        with pytest.raises(NotFoundError, match="did you mean 'express'"):
            await app.start(charge, queue="expres")
        with pytest.raises(NotFoundError, match="did you mean 'express'"):
            app.worker(queues=["expres"])
        with pytest.raises(NotFoundError, match="did you mean 'default'"):
            await app.queues().pause("defualt")
        with pytest.raises(NotFoundError, match="no run"):
            await app.run("nope").view()
        with pytest.raises(NotFoundError, match="no run"):
            await app.run("nope").result()
        with pytest.raises(NotFoundError, match="no run"):
            await app.run("nope").cancel()
        await test.assert_nothing_started()


async def test_a_run_is_not_there_for_another_org() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with bench(app):
        run = await app.start(work, org="acme")
        for foreign in (app.run(run.id), app.run(run.id, "other")):
            for ask in (foreign.view, foreign.state, foreign.cancel, foreign.history, foreign.result):
                with pytest.raises(NotFoundError):
                    await ask()
        assert await run.state() == "PENDING"


@loop_over(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 2.5},
        {"lease_seconds": 0},
        {"lease_seconds": float("nan")},
        {"poll_seconds": -1},
        {"grace_seconds": "long"},
        {"queues": "default"},
        {"queues": []},
        {"workflows": "flow"},
        {"nonsense": 1},
    ],
)
def test_odd_options_of_a_worker_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidValueError, TypeError), match=next(iter(options))):
        new_app().worker(**options)


@pytest.mark.parametrize("payload", ["text", None, [1], {"number": "x"}, {"number": 1, "extra": 2}, {}])
async def test_a_payload_that_does_not_fit_is_refused_at_the_start(payload: Any) -> None:
    app = new_app()

    @app.task
    async def add(number: int, other: int) -> int:
        return number + other

    async with bench(app) as test:
        with pytest.raises(PayloadError, match="add"):
            await app.start("add", payload)
        with pytest.raises(PayloadError, match="add"):
            await app.start_many("add", [{"number": 1, "other": 2}, payload])
        await test.assert_nothing_started()
        assert await test.execute(add, {"number": 1, "other": 2}) == 3


async def test_many_runs_cannot_share_a_key() -> None:
    app = new_app()

    @app.task
    async def work(number: int) -> None: ...

    async with bench(app) as test:
        with pytest.raises(InvalidValueError, match="pass keys"):
            await app.start_many(work, [1, 2], key="k")
        await test.assert_nothing_started()
        assert await app.start_many(work, []) == []
        await app.start(work, 1, key="k")
        with pytest.raises(ConflictError, match="different workflow or payload") as caught:
            await app.start(work, 2, key="k")
        assert caught.value.run_id == (await test.assert_started(work, 1)).id
        assert len(await test.started()) == 1


# Rows that were tampered with


GARBAGE = [
    "not json",
    "",
    "null",
    "[]",
    "{}",
    '{"workflow":1,"steps":[]}',
    '{"workflow":"x","steps":[{}]}',
    "\ud7ff",
]


@pytest.mark.parametrize("body", GARBAGE)
async def test_a_run_with_an_unreadable_definition_stops_no_other_run_and_is_not_lost(body: str) -> None:
    app = new_app()

    @app.task
    async def bad() -> str:
        return "read after all"

    @app.task
    async def good() -> str:
        return "good"

    emitted = EventCollector(app)
    async with bench(app, timeout=3.0) as test:
        run, other = await app.start(bad), await app.start(good)
        [[before]] = await sql(app, "SELECT body FROM definitions WHERE workflow = 'bad'")
        await sql(app, "UPDATE definitions SET body = ?1 WHERE workflow = 'bad'", body)
        await test.drain()
        assert await other.result() == "good"
        assert (await run.view()).place == "waiting"
        assert any(run.id in each.error for each in emitted.of(StoreFailed))
        await sql(app, "UPDATE definitions SET body = ?1 WHERE workflow = 'bad'", before)
        await test.advance(60)
        assert await run.result() == "read after all"


@pytest.mark.parametrize(
    "change",
    [
        "definition = 'unknown'",
        "step_index = 7",
        "step_index = -3",
        "policy_override = 'not json'",
        "policy_override = '{}'",
        "slots = 'not json'",
        "slots = '7'",
    ],
)
async def test_a_run_with_a_bad_column_stops_no_other_and_is_not_lost(change: str) -> None:
    app = new_app()

    @app.task
    async def bad(context: Context) -> None:
        raise ConnectionError

    @app.task
    async def good() -> str:
        return "good"

    async with bench(app, timeout=3.0) as test:
        run, other = await app.start(bad), await app.start(good)
        await sql(app, f"UPDATE runs SET {change} WHERE id = ?1", run.id)
        await test.drain()
        assert await other.result() == "good"
        await test.advance(300)
        later = await app.start(good)
        assert await later.result() == "good"
        left = await run.view()
        assert left.place == "waiting" or left.state == "DLQ_PENDING"


@pytest.mark.parametrize("change", ["input = 'not json'", "input = ''", "tags = 'x'", "metadata = '['"])
async def test_a_run_with_an_unreadable_input_becomes_a_dead_letter(change: str) -> None:
    app = new_app()

    @app.task
    async def bad(value: Any, context: Context) -> Any:
        return [value, context.tags, context.metadata]

    async with bench(app, timeout=3.0) as test:
        run = await app.start(bad, 1)
        await sql(app, f"UPDATE runs SET {change} WHERE id = ?1", run.id)
        await test.drain()
        letter = await run.dead_letter()
        await check_ended(app, 1)
    assert letter is not None
    assert letter.attempts == 1


@pytest.mark.parametrize("body", ["not json", "", "[]", "null", '{"state":"SIDEWAYS"}'])
async def test_a_breaker_that_cannot_be_read_starts_again(body: str) -> None:
    app = new_app()

    @app.task(breaker="bank")
    async def pay() -> str:
        return "paid"

    async with bench(app, timeout=3.0) as test:
        await app.breakers().force("bank", "CLOSED", reason="make the row")
        await sql(app, "UPDATE breakers SET body = ?1", body)
        assert await test.execute(pay) == "paid"
        [state] = await parts_of(app).breakers.all()
    assert state.state == "CLOSED"


@pytest.mark.parametrize("url", ["work.db", "mysql://x", "sqlite://", "sqlite:///", "postgresql"])
def test_an_odd_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidValueError, match="sqlite:///"):
        new_app(url)


def test_every_error_here_is_one_of_ours() -> None:
    for kind in (ConflictError, InvalidValueError, NotFoundError, NotStorableError, PayloadError):
        assert issubclass(kind, RedriveError)


async def test_an_unreadable_input_becomes_a_dead_letter_for_a_limited_task_too() -> None:
    """The worker can't compute its limit key: it shares one key with all such work, and the attempt fails."""
    app = new_app()

    @app.task(concurrency=1, concurrency_key=lambda payload: payload["id"])
    async def work(payload: dict[str, int]) -> None: ...

    async with bench(app) as test:
        run = await app.start(work, {"id": 1})
        await sql(app, "UPDATE runs SET input = 'not json'")
        await test.drain()
        check_letter(await run.dead_letter(), "final_error")


async def test_the_result_of_an_earlier_step_that_cannot_be_read_is_a_failure_of_the_step() -> None:
    app = new_app(queues=["other"])

    @app.task
    async def first() -> int:
        return 1

    @app.task(queue="other")
    async def second(number: int) -> int:
        return number

    app.workflow("flow", [first, second])
    async with bench(app) as test:
        await app.queues().pause("other")
        run = await app.start("flow")
        await test.drain()
        await sql(app, "UPDATE steps SET output = 'not json'")
        await app.queues().resume("other")
        await test.drain()
        check_letter(await run.dead_letter(), "final_error")
