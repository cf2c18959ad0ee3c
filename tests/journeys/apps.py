"""The applications that worker processes execute: each function registers the tasks of one test."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.journeys.journal import note

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.parts import parts_of
from redrive.policy import Backoff, Exponential, RetryPolicy


def quick(max_attempts: int, base: float = 0.03, **more: Any) -> RetryPolicy:
    """Return a policy whose waits are short enough for a test."""
    return RetryPolicy(max_attempts=max_attempts, backoff=Backoff(Exponential(base), cap=60.0), **more)


async def file_exists(path: str) -> None:
    """Wait until the test creates the file."""
    while not Path(path).exists():
        await asyncio.sleep(0.01)


def crashing(app: Redrive) -> None:
    @app.task
    async def bomb(number: int) -> None:
        note("bomb")
        await asyncio.sleep(0.1)
        os._exit(1)

    @app.task
    async def innocent(number: int) -> int:
        note("innocent", number=number)
        await asyncio.sleep(0.3)
        return number


def stuck_at_first(app: Redrive) -> None:
    """The first attempt never ends, the second does; the policy allows no failure."""

    @app.task(max_attempts=1)
    async def charge(order: int, context: Context) -> str:
        note("charging", attempt=context.attempt, key=context.idempotency_key, fence=context.fence)
        if context.attempt == 1:
            await asyncio.sleep(600)
        note("charged", key=context.idempotency_key)
        return f"charged by attempt {context.attempt}"

    @app.task(max_attempts=1)
    def charge_in_thread(order: int, context: Context) -> str:
        note("charging", attempt=context.attempt, key=context.idempotency_key, fence=context.fence)
        if context.attempt == 1:
            time.sleep(600)
        note("charged", key=context.idempotency_key)
        return f"charged by attempt {context.attempt}"


def until_told(app: Redrive) -> None:
    """The first attempt ends when a file exists; later attempts end at once."""

    @app.task
    async def charge(sign: str, context: Context) -> str:
        note("charging", attempt=context.attempt)
        if context.attempt == 1:
            await file_exists(sign)
        note("charged", attempt=context.attempt)
        return f"charged by attempt {context.attempt}"


def counting(app: Redrive) -> None:
    @app.task
    async def count(number: int, context: Context) -> int:
        note("counted", number=number, run=context.run_id, attempt=context.attempt)
        await asyncio.sleep(0.02)
        return number


def mail_and_shop(app: Redrive) -> None:
    """Two workflows and two queues; an order goes through both queues."""

    @app.task
    async def price(order: int) -> int:
        note("priced", order=order)
        return order * 100

    @app.task(queue="mail")
    async def send(amount: int) -> str:
        note("sent", amount=amount)
        return f"sent {amount}"

    app.workflow("order", [price, send])


def limited(app: Redrive) -> None:
    @app.task(concurrency=2)
    async def scarce(number: int) -> None:
        await _occupy("scarce", number)

    @app.task(concurrency=1, concurrency_key=lambda payload: payload["account"])
    async def transfer(payload: dict[str, Any]) -> None:
        await _occupy(payload["account"], payload["number"])


async def _occupy(what: str, number: int) -> None:
    note("begin", what=what, number=number)
    await asyncio.sleep(0.03)
    note("end", what=what, number=number)


def order_of_monday(app: Redrive) -> None:
    @app.task(retry=quick(max_attempts=2))
    async def price(order: int, config: dict[str, int]) -> int:
        note("priced", order=order, tax=config["tax"])
        return order

    @app.task(retry=quick(max_attempts=7))
    async def pack(order: int) -> int:
        note("packed", order=order)
        return order

    @app.task
    async def ship(order: int) -> str:
        note("shipped", order=order)
        return f"order {order}, shipped"

    app.workflow("order", [price.step(config={"tax": 19}), pack, ship])


def order_of_tuesday(app: Redrive) -> None:
    """A later version: without `pack`, with `wrap`, and with another config and policy of `price`."""

    @app.task(retry=quick(max_attempts=5))
    async def price(order: int, config: dict[str, int]) -> int:
        note("priced", order=order, tax=config["tax"])
        return order

    @app.task
    async def wrap(order: int) -> int:
        note("wrapped", order=order)
        return order

    @app.task
    async def ship(order: int) -> str:
        note("shipped", order=order)
        return f"order {order}, shipped"

    app.workflow("order", [price.step(config={"tax": 7}), wrap, ship])


def two_halves(app: Redrive) -> None:
    """A workflow whose second step needs another claim."""

    @app.task(queue="first")
    async def first_half(number: int, context: Context) -> int:
        note("first half", run=context.run_id, attempt=context.attempt)
        await asyncio.sleep(0.01)
        return number

    @app.task(queue="second")
    async def second_half(number: int, context: Context) -> int:
        note("second half", run=context.run_id, attempt=context.attempt)
        assert context.results == {"first_half": number}
        await asyncio.sleep(0.01)
        return number * 2

    app.workflow("halves", [first_half, second_half])


def with_effect_in_database(app: Redrive) -> None:
    """The effect and the completion of the step share a transaction."""

    @app.task(retry=quick(max_attempts=3))
    async def book(account: str, context: Context) -> str:
        import asyncpg

        connection = await asyncpg.connect(parts_of(app).settings.database_url)
        try:
            async with connection.transaction():
                sql = (
                    f"INSERT INTO {parts_of(app).settings.schema}.bookings (account, attempt) VALUES ($1, $2)"
                )
                await connection.execute(sql, account, context.attempt)
                await context.complete(f"booked {account}", connection=connection)
                await _crash_at("before commit", account, context)
            await _crash_at("after commit", account, context)
        finally:
            await connection.close()
        return "this does not count: the step is completed already"


async def _crash_at(moment: str, account: str, context: Context) -> None:
    if account == moment and context.attempt == 1:
        note("to be killed", account=account)
        await asyncio.sleep(600)


def unwell(app: Redrive) -> None:
    """A task that blocks the event loop, a task that swallows its cancellation, and a healthy task."""

    @app.task(timeout=10.0, max_attempts=2)
    async def wedge(sign: str, context: Context) -> int:
        note("wedge", attempt=context.attempt, process=os.getpid())
        while not Path(sign).exists():
            time.sleep(0.05)
        return context.attempt

    @app.task
    async def fine(number: int) -> int:
        note("fine")
        await asyncio.sleep(0.01)
        return number

    @app.task(timeout=0.5, retry=quick(2))
    async def stubborn(sign: str, context: Context) -> int:
        note("stubborn", attempt=context.attempt, process=os.getpid())
        while context.attempt == 1 and not Path(sign).exists():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        return context.attempt

    @app.task(timeout=600.0)
    async def stubborn_for_long(sign: str, context: Context) -> int:
        note("begins", attempt=context.attempt, process=os.getpid())
        while context.attempt == 1 and not Path(sign).exists():
            note("at it", process=os.getpid())
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.02)
        return context.attempt
