"""Tasks: the options of other systems get a helpful error; a task starts runs, and types their results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cases import loop_over
from tests.engine.workbench import bench, new_app

from redrive import Context, Redrive
from redrive.duration import to_seconds
from redrive.errors import InvalidValueError, PayloadError


@pytest.mark.parametrize(
    ("option", "meant"),
    [("max_retries", "max_attempts"), ("retries", "max_attempts"), ("timeuot", "timeout")],
)
def test_an_option_of_another_system(option: str, meant: str) -> None:
    app = Redrive("sqlite://:memory:")
    with pytest.raises(InvalidValueError, match=f"did you mean '{meant}'"):
        app.task(**{option: 3})(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["delay", "apply_async", "perform_async", "send"])
def test_other_words_for_starting_are_answered_with_ours(name: str) -> None:
    app = Redrive("sqlite://:memory:")

    @app.task
    def charge(order: int) -> None: ...

    with pytest.raises(AttributeError, match=r"to start a run: charge\.start\("):
        getattr(charge, name)
    assert not hasattr(charge, "nothing_of_the_kind")


def test_a_timeout_can_be_a_timedelta() -> None:
    app = Redrive("sqlite://:memory:")

    @app.task(timeout=timedelta(minutes=2))
    def charge(order: int) -> None: ...

    assert charge.timeout == 120.0
    assert charge.step().timeout == 120.0
    assert charge.step("slow", timeout=timedelta(milliseconds=1500)) == charge.step("slow", timeout=1.5)


@loop_over("timeout", [timedelta(0), timedelta(seconds=-1), timedelta.max, math.nan, math.inf])
def test_a_timeout_out_of_bounds_is_rejected(timeout: Any) -> None:
    app = Redrive("sqlite://:memory:")

    @app.task
    def charge(order: int) -> None: ...

    message = f"timeout must be a number of seconds from 0.001 to 31,536,000, got {to_seconds(timeout)!r}"
    with pytest.raises(InvalidValueError) as caught:
        app.task(name="other", timeout=timeout)(charge.function)
    assert str(caught.value) == message
    with pytest.raises(InvalidValueError) as caught:
        charge.step(timeout=timeout)
    assert str(caught.value) == message


@dataclass
class Order:
    number: int
    cents: int = 0


class TestStart:
    async def test_one_argument_is_the_payload(self) -> None:
        async with bench(app := new_app()) as test:

            @app.task
            async def charge(order: Order) -> str:
                return f"charged {order.number}"

            run = await charge.start(Order(7))
            await test.assert_started(charge, Order(7))
            assert await run.result() == "charged 7"
            await charge.start(order=Order(8))
            await test.assert_started(charge, Order(8))

    async def test_several_arguments_are_the_payload_by_name(self) -> None:
        async with bench(app := new_app()) as test:

            @app.task
            async def send(to: str, item: str = "tea", *, urgent: bool = False) -> str:
                return f"{item} for {to}{'!' if urgent else ''}"

            run = await send.start("ana", urgent=True)
            await test.assert_started(send, {"to": "ana", "urgent": True})
            assert await run.result() == "tea for ana!"

    async def test_context_and_config_are_no_arguments_of_a_start(self) -> None:
        async with bench(app := new_app()) as test:

            @app.task
            async def book(context: Context, number: int, place: str, config: object = None) -> str:
                return f"{number} {place} {context.attempt} {config}"

            await (await book.start(7, "Oslo")).wait()
            await test.assert_started(book, {"number": 7, "place": "Oslo"})

    async def test_a_task_without_arguments(self) -> None:
        async with bench(app := new_app()):

            @app.task
            async def sweep() -> int:
                return 3

            assert await (await sweep.start()).result() == 3

    async def test_with_options(self) -> None:
        async with bench(app := new_app()) as test:

            @app.task
            async def charge(number: int) -> int:
                return number

            first = await charge.options(key="order-7", priority=3).start(7)
            again = await charge.options(key="order-7").start(7)
            assert first.id == again.id
            assert again.existed
            await test.assert_started(charge, 7, priority=3, times=1)
            with pytest.raises(InvalidValueError, match="did you mean 'priority'"):
                await charge.options(prioritx=3).start(7)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((), {}), "charge: missing a required argument: 'number'"),
            (((1, 2), {}), "charge: too many positional arguments"),
            (((), {"nummer": 1}), "charge: missing a required argument: 'number'"),
            (((1,), {"other": 1}), "charge: got an unexpected keyword argument 'other'"),
        ],
    )
    async def test_wrong_arguments_are_refused_as_in_a_call(self, arguments: Any, message: str) -> None:
        async with bench(app := new_app()) as test:

            @app.task
            async def charge(number: int) -> int:
                return number

            with pytest.raises(TypeError) as caught:
                await charge.start(*arguments[0], **arguments[1])
            assert str(caught.value) == message
            await test.assert_nothing_started()

    def test_from_a_program_without_an_event_loop(self, tmp_path: Path) -> None:
        app = Redrive(f"sqlite:///{tmp_path}/work.db", log=False)

        @app.task
        def charge(number: int, cents: int) -> int:
            return number * cents

        try:
            run = charge.start_sync(7, cents=3)
            same = charge.options(key="order-7").start_sync(7, cents=3)
            assert run.id != same.id
            assert app.sync.run(run.id).view().input == {"number": 7, "cents": 3}
        finally:
            app.sync.close()


class TestResult:
    """A result comes back in the type that the task returns."""

    async def test_of_a_dataclass(self) -> None:
        async with bench(app := new_app()):

            @app.task
            async def load(number: int) -> Order:
                return Order(number, 100)

            run = await app.start(load, 7)
            assert await run.result() == Order(7, 100)
            assert await run == Order(7, 100)
            assert await app.run(run.id).result() == {"number": 7, "cents": 100}
            assert await app.run(run.id, task=load).result() == Order(7, 100)
            assert [await each.result() for each in await app.start_many(load, [8])] == [Order(8, 100)]

    async def test_of_a_workflow_it_is_that_of_its_last_task(self) -> None:
        async with bench(app := new_app()):

            @app.task
            async def load(number: int) -> Order:
                return Order(number)

            @app.task
            async def pay(order: Order) -> tuple[Order, date]:
                return order, date(2026, 1, 31)

            flow = app.workflow("flow", [load, pay])
            assert await (await app.start(flow, 7)).result() == (Order(7), date(2026, 1, 31))

    async def test_a_mismatch_with_its_annotation_is_reported(self) -> None:
        async with bench(app := new_app()):

            @app.task
            async def load(number: int) -> Order:
                return "no order"  # type: ignore[return-value]

            run = await app.start(load, 7)
            with pytest.raises(PayloadError, match="result of 'load': Expected `object`, got `str`"):
                await run.result()
            assert await app.run(run.id).result() == "no order"

    async def test_without_a_useful_annotation_it_stays_unchanged(self) -> None:
        async with bench(app := new_app()):

            @app.task
            async def load(number: int) -> object:
                return {"number": number}

            assert await (await app.start(load, 7)).result() == {"number": 7}
