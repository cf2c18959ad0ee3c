"""Uses that type checkers must accept, with the types that they must infer: checked, never executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from redrive import (
    Backoff,
    BreakerPolicy,
    Context,
    DeadLetterQueue,
    Guard,
    HttpClient,
    RateLimitedError,
    Redrive,
    RunHandle,
    Task,
    attempts,
    call,
    retry,
)
from redrive.calls import Dependency
from redrive.model.run import RunState
from redrive.policy import Additive, Custom, Exponential, Linear, Ramp
from redrive.testing import Harness, virtual_time
from redrive.types import SyncRunHandle

app = Redrive("sqlite://:memory:")


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    number: int


@app.task
async def charge(order: Order) -> Receipt:
    return Receipt(order.number)


@app.task(timeout=30, queue="mail")
def send(to: str, subject: str = "hello", *, urgent: bool = False) -> int:
    return len(to + subject) + urgent


@app.task
async def book(context: Context, order: Order, place: str) -> str:
    return f"{context.attempt} {order.number} {place}"


@app.task
def label(order: Order, context: Context) -> str:
    return f"{context.attempt} {order.number}"


@app.task
async def sweep() -> None: ...


checkout = app.workflow("checkout", [charge, label])


async def started() -> None:
    assert_type(await app.start(charge, Order(7)), RunHandle[Receipt])
    assert_type(await app.start(charge, Order(7), key="order-7", delay=5.0), RunHandle[Receipt])
    assert_type(await app.start(label, Order(7)), RunHandle[str])
    assert_type(await app.start(sweep), RunHandle[None])
    assert_type(await app.start("charge", {"number": 7}), RunHandle[Any])
    assert_type(await app.start(checkout, Order(7)), RunHandle[Any])
    assert_type(await app.start_many(charge, [Order(7), Order(8)]), list[RunHandle[Receipt]])
    assert_type(await charge.start(Order(7)), RunHandle[Receipt])
    assert_type(await send.start("ana", urgent=True), RunHandle[int])
    assert_type(await book.start(Order(7), place="Oslo"), RunHandle[str])
    assert_type(await send.options(key="mail-7", priority=3).start("ana", "hi"), RunHandle[int])


async def results(run: RunHandle[Receipt], run_id: str) -> None:
    assert_type(await run.result(), Receipt)
    assert_type(await run.result(timeout=3), Receipt)
    assert_type(await run, Receipt)
    assert_type(await app.run(run_id).result(), Any)
    assert_type(await app.run(run_id, task=charge).result(), Receipt)


def from_a_program_without_a_loop() -> None:
    assert_type(app.sync.start(charge, Order(7)), SyncRunHandle[Receipt])
    assert_type(app.sync.start(charge, Order(7)).result(), Receipt)
    assert_type(send.start_sync("ana", urgent=True), SyncRunHandle[int])
    assert_type(app.sync.start_many(charge, [Order(7)])[0].result(timeout=3), Receipt)
    assert_type(app.sync.run("1", task=charge).result(), Receipt)


async def called() -> None:
    assert_type(await charge(Order(7)), Receipt)
    assert_type(send("ana", urgent=True), int)


def any_task(task: Task[..., Any]) -> None:
    any_task(charge)
    any_task(send)


@retry("fetch")
def fetch(number: int) -> str:
    return str(number)


def guarded() -> str:
    assert_type(fetch(7), str)
    function: Callable[[int], str] = fetch
    for attempt in attempts("fetch", max_attempts=3, timeout=10):
        with attempt:
            return function(attempt.number)
    return ""


async def guarded_async() -> str:
    async for attempt in attempts("fetch"):
        async with attempt:
            return await (await app.start(label, Order(attempt.number))).result(attempt.remaining())
    return ""


MINUTE = timedelta(minutes=1)


@app.task(timeout=MINUTE, redrive=lambda redrives: redrives * MINUTE)
async def wait(context: Context) -> None:
    context.defer(MINUTE)


async def durations(run: RunHandle[Receipt], blocking: SyncRunHandle[Receipt], test: Harness) -> None:
    await app.start(charge, Order(7), delay=MINUTE)
    await wait.options(delay=MINUTE).start()
    app.workflow("waits", [wait.step(timeout=MINUTE)])
    app.worker(lease_seconds=MINUTE)
    assert_type(await run.wait(MINUTE), RunState)
    assert_type(await run.result(timeout=MINUTE), Receipt)
    assert_type(blocking.wait(MINUTE), RunState)
    assert_type(blocking.result(MINUTE), Receipt)
    await app.breakers().force("bank", "OPEN", reason="maintenance", seconds=MINUTE)
    await app.failures().groups.ignore("f00", "known", until=MINUTE)
    await app.failures().groups.occurrences("f00", seconds=MINUTE)
    await app.members().keys.create("ci", "ADMIN", expires_in=MINUTE)
    await app.members().keys.rotate("ci", grace_seconds=MINUTE)
    await app.idempotent.run("k", None, print, ttl=MINUTE, lease_seconds=MINUTE, wait=MINUTE)
    await DeadLetterQueue(interval=MINUTE).retry("a", timeout=MINUTE)
    await test.advance(MINUTE)


def durations_of_policies() -> None:
    backoff = Backoff(Exponential(MINUTE), MINUTE, Additive(MINUTE))
    assert_type(backoff.cap, float)
    assert_type(Exponential(base=MINUTE, factor=3.0).base, float)
    assert_type(Linear(MINUTE, 5.0).step, float)
    assert_type(Ramp(every=MINUTE).every, float)
    breaker = BreakerPolicy(
        window_seconds=MINUTE, slow_seconds=MINUTE, cool_down=MINUTE, longest_open=3600, probe_seconds=MINUTE
    )
    assert_type(breaker.cool_down, float)
    assert_type(breaker.slow_seconds, float | None)
    assert_type(RateLimitedError(retry_after=MINUTE).retry_after, float | None)
    Custom(lambda failures: failures * MINUTE)
    Custom(lambda failures: 2.0 * failures)


def durations_of_calls() -> None:
    retry("fetch", timeout=MINUTE, deadline=MINUTE, longest_wait=MINUTE)(fetch)
    call("fetch", lambda attempt: attempt.number, timeout=MINUTE)
    attempts("fetch", timeout=MINUTE)
    Guard("fetch", timeout=MINUTE, deadline=None)
    Dependency("bank").is_open_for(MINUTE)
    HttpClient("https://bank", timeout=MINUTE).request("GET", "/", timeout=MINUTE)
    with virtual_time() as clock:
        clock.advance(MINUTE)
