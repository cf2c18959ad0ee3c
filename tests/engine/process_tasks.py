"""Tasks for test_process: a separate process finds them only at the top level of a module."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from redrive.app import Redrive
from redrive.calls.running_step import running_step
from redrive.engine.context import Context
from redrive.engine.task import AnyTask, Task
from redrive.errors import RateLimitedError
from redrive.model.failure import Category
from redrive.policy.classify import Classifier, Rule

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


class FullError(Exception):
    pass


def isolated(function: Callable[..., Any]) -> AnyTask:
    classifier = Classifier([Rule.for_type(FullError, Category.RESOURCE)])
    app = Redrive("sqlite://:memory:", log=False)
    return Task.of(function, {"isolation": "process", "classifier": classifier}, app)


@isolated
def names_its_step() -> list[str]:
    step = running_step()
    assert step is not None
    return [step.run_id, step.correlation_id]


@dataclass
class Order:
    cents: int
    day: date


@isolated
def nothing(payload: Any) -> None:
    return None


@isolated
def double(number: int) -> int:
    return 2 * number


@isolated
def described(order: Order, context: Context, config: Any) -> dict[str, Any]:
    return {
        "type": type(order).__name__,
        "day": order.day,
        "cents": order.cents,
        "attempt": context.attempt,
        "key": context.idempotency_key,
        "input": context.run_input,
        "results": context.results,
        "remaining": context.remaining(),
        "config": config,
        "process": os.getpid(),
    }


@isolated
async def eventually(payload: Any) -> Any:
    await asyncio.sleep(0.01)
    return payload


@isolated
def echo(payload: Any) -> Any:
    return payload


@isolated
def fail(password: str) -> None:
    _deeper(password)


def _deeper(password: str) -> None:
    raise FullError(f"no room, password={password}")


@isolated
async def fail_limited(payload: Any) -> None:
    raise RateLimitedError("slow down", retry_after=7.5)


@isolated
def leave(payload: Any) -> None:
    sys.exit(4)


@isolated
def defer(payload: Any, context: Context) -> None:
    context.defer(90)


@isolated
def complete(payload: Any, context: Context) -> None:
    context.complete(1, connection=None)


@isolated
def spin(path: str) -> None:
    _leave_pid(path)
    while True:
        pass


@isolated
def spin_in_c(path: str) -> None:
    _leave_pid(path)
    _never_give_the_lock_back()


@isolated
def spin_with_child(path: str) -> None:
    started = subprocess.Popen(SLEEP)
    Path(path + ".child").write_text(str(started.pid))
    _leave_pid(path)
    _never_give_the_lock_back()


@isolated
def tidy(path: str) -> None:
    try:
        _leave_pid(path)
        time.sleep(60)
    finally:
        Path(path + ".tidied").write_text("yes")


@isolated
async def tidy_async(path: str) -> None:
    try:
        _leave_pid(path)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        Path(path + ".tidied").write_text("yes")


@isolated
def stubborn(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _leave_pid(path)
    while True:
        time.sleep(60)


@isolated
def exit_with(code: int) -> None:
    os._exit(code)


@isolated
def die_of(number: int) -> None:
    os.kill(os.getpid(), number)


@isolated
def die_with_heir(file: str) -> None:
    """Fork a child, which keeps all files open, and exit. Write the child's process id to `file`."""
    if heir := os.fork():
        Path(file).write_text(str(heir), encoding="ascii")
    else:
        time.sleep(600)
    os._exit(3)


@isolated
def close_files(payload: Any) -> None:
    os.closerange(3, 1_000)
    time.sleep(60)


@isolated
def pooled(payload: Any) -> list[int]:
    with get_context("fork").Pool(1) as pool:
        return pool.map(abs, [-1, -2])


@isolated
def tell(count: int, context: Context) -> None:
    for number in range(count):
        context.progress(number / count, f"number {number}")


@isolated
def tell_for_ever(payload: Any, context: Context) -> None:
    while True:
        context.progress(0.5, "still here")


@isolated
def give_object(payload: Any) -> object:
    return {"it": object()}


@isolated
def grow(size: int) -> str:
    return "x" * size


@isolated
def write(payload: str) -> None:
    print(payload, flush=True)


def plain(payload: Any) -> Any:
    return payload


renamed = isolated(plain)


def hidden() -> AnyTask:
    @isolated
    def inner(payload: Any) -> Any:
        return payload

    return inner


def _leave_pid(path: str) -> None:
    Path(path + ".new").write_text(str(os.getpid()))
    Path(path + ".new").rename(path)


def _never_give_the_lock_back() -> None:
    """Run one call of C code, in which Python handles no signal and lets no other thread run."""
    sum(range(10**15))
