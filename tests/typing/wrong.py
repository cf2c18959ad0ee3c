"""Mistakes that type checkers must find: one on every line that ends with `# wrong`, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from redrive import Backoff, BreakerPolicy, Context, RateLimitedError, Redrive, RunHandle, attempts
from redrive.policy import Exponential, Linear

app = Redrive("sqlite://:memory:")


@dataclass
class Order:
    number: int


@app.task
async def charge(order: Order) -> str:
    return str(order.number)


@app.task(timeout=30)
def send(to: str, *, urgent: bool = False) -> int:
    return len(to) + urgent


@app.task
async def book(context: Context, order: Order, place: str) -> str:
    return f"{context.attempt} {order.number} {place}"


@app.task
async def sweep() -> None: ...


async def started() -> None:
    await app.start(charge, 7)  # wrong
    await app.start(charge)  # wrong
    await app.start(charge, Order(7), kee="order-7")  # wrong
    await app.start(sweep, Order(7))  # wrong
    await app.start_many(charge, [1, 2])  # wrong
    await charge.start(7)  # wrong
    await send.start("ana", urgnt=True)  # wrong
    await send.start()  # wrong
    await book.start(Order(7), 3)  # wrong
    await send.options(prio=3).start("ana")  # wrong
    await app.start(print, 3)  # wrong


async def results() -> None:
    number: int = await (await app.start(charge, Order(7))).result()  # wrong
    print(number)


def from_a_program_without_a_loop() -> None:
    app.sync.start(charge, 7)  # wrong
    number: int = app.sync.start(charge, Order(7)).result()  # wrong
    print(number, send.start_sync(7))  # wrong


def called() -> None:
    send(7)  # wrong
    send("ana", True)  # wrong


def decorated() -> None:
    app.task(timeot=30)  # wrong
    attempts("fetch", tries=3)  # wrong


async def durations(run: RunHandle[str]) -> None:
    app.task(timeout="30")  # wrong
    charge.step(timeout="30")  # wrong
    await app.start(charge, Order(7), delay="1m")  # wrong
    await run.result(timeout="1m")  # wrong
    attempts("fetch", timeout="1m")  # wrong
    Exponential("1m")  # wrong
    Exponential()  # wrong
    Linear(1.0)  # wrong
    Backoff(Exponential(1.0), cap="1m")  # wrong
    BreakerPolicy(cool_down=None)  # wrong
    BreakerPolicy(30.0)  # wrong
    RateLimitedError(retry_after="1m")  # wrong
