"""Guarded calls compared with tenacity, stamina, backoff, pybreaker, purgatory and aiobreaker.

Every figure is the overhead over the bare call. Each library runs as its README shows, with zero delays where
a failure is retried; log lines go to a handler that drops them.

    make bench
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiobreaker
import backoff
import purgatory
import pybreaker
import stamina
import tenacity
from bench.measure import Figure, Report, async_overheads, overheads

from redrive import Backoff, call, dependency, retry
from redrive.calls import Dependency
from redrive.policy import BudgetPolicy, Immediate

CALLS = 20_000
FAILING_CALLS = 3_000
REPETITIONS = 9
AT_ONCE = Backoff(Immediate())


def nothing() -> int:
    return 1


async def nothing_async() -> int:
    return 1


def every_second_fails() -> Callable[[], int]:
    """Return a function that fails on every other call, so two guarded calls are a failure and a success."""
    calls = 0

    def work() -> int:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise ConnectionError("reset by peer")
        return 1

    return work


def every_second_fails_async() -> Callable[[], Awaitable[int]]:
    work = every_second_fails()

    async def wrapped() -> int:
        return work()

    return wrapped


def retried_by_hand() -> Callable[[], int]:
    work = every_second_fails()

    def both() -> int:
        try:
            return work()
        except ConnectionError:
            return work()

    return both


def retried_by_hand_async() -> Callable[[], Awaitable[int]]:
    work = every_second_fails_async()

    async def both() -> int:
        try:
            return await work()
        except ConnectionError:
            return await work()

    return both


Decorator = Callable[[Any], Any]

RETRIES: dict[str, Decorator] = {
    "redrive": retry("bench", backoff=AT_ONCE),
    "tenacity": tenacity.retry(stop=tenacity.stop_after_attempt(3)),
    "stamina": stamina.retry(on=ConnectionError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0),
    "backoff": backoff.on_exception(backoff.constant, ConnectionError, max_tries=3, interval=0, jitter=None),
}


def decorated(function: Callable[[], Any]) -> dict[str, Any]:
    return {name: decorate(function) for name, decorate in RETRIES.items()}


def compare_retries(report: Report) -> None:
    success = overheads(nothing, decorated(nothing), calls=CALLS, repetitions=REPETITIONS)
    report.table("success, sync", "µs over the bare call", success, "redrive")
    judge_success(report, success)
    success = async_overheads(nothing_async, decorated(nothing_async), calls=CALLS, repetitions=REPETITIONS)
    report.table("success, async", "µs over the bare call", success, "redrive")
    judge_success(report, success)


def compare_single_calls(report: Report) -> None:
    """Compare calls that are guarded without a decorator."""
    stop = tenacity.stop_after_attempt(3)
    caller = stamina.RetryingCaller(attempts=3).on(ConnectionError)
    contenders: dict[str, Callable[[], Any]] = {
        "redrive": lambda: call("bench", lambda attempt: 1),
        "tenacity": lambda: tenacity.Retrying(stop=stop)(nothing),
        "stamina": lambda: caller(nothing),
    }
    figures = overheads(nothing, contenders, calls=CALLS, repetitions=REPETITIONS)
    report.table("success, one call without a decorator", "µs over the bare call", figures, "redrive")


def judge_success(report: Report, figures: dict[str, Figure]) -> None:
    ours = figures["redrive"].median
    report.target("a tenth of tenacity's", ours / figures["tenacity"].median, 0.1)
    report.target("a tenth of stamina's", ours / figures["stamina"].median, 0.1)
    report.target("no more than backoff's", ours / figures["backoff"].median, 1.0)


def compare_failures(report: Report) -> None:
    sync = {name: decorate(every_second_fails()) for name, decorate in RETRIES.items()}
    figures = overheads(retried_by_hand(), sync, calls=FAILING_CALLS, repetitions=REPETITIONS)
    report.table("fail once, then succeed, sync", "µs over the bare calls", figures, "redrive")
    report.target("a third of tenacity's", figures["redrive"].median / figures["tenacity"].median, 1 / 3)
    asynchronous = {name: decorate(every_second_fails_async()) for name, decorate in RETRIES.items()}
    figures = async_overheads(
        retried_by_hand_async(), asynchronous, calls=FAILING_CALLS, repetitions=REPETITIONS
    )
    report.table("fail once, then succeed, async", "µs over the bare calls", figures, "redrive")
    report.target("a third of tenacity's", figures["redrive"].median / figures["tenacity"].median, 1 / 3)


def compare_breakers(report: Report) -> None:
    sync: dict[str, Any] = {
        "redrive": Dependency("bench-breaker")(nothing),
        "redrive, with retries": retry("bench", dependency=Dependency("bench-both"))(nothing),
        "pybreaker": pybreaker.CircuitBreaker()(nothing),
        "aiobreaker": aiobreaker.CircuitBreaker()(nothing),
        "purgatory": purgatory.SyncCircuitBreakerFactory()("bench")(nothing),
    }
    figures = overheads(nothing, sync, calls=CALLS, repetitions=REPETITIONS)
    report.table("closed breaker, sync", "µs over the bare call", figures, "redrive")
    fastest = min(figures[name].median for name in ("pybreaker", "aiobreaker", "purgatory"))
    report.target("no more than the fastest breaker's", figures["redrive"].median / fastest, 1.0)
    asynchronous: dict[str, Any] = {
        "redrive": Dependency("bench-breaker-async")(nothing_async),
        "redrive, with retries": retry("bench", dependency=Dependency("bench-both-async"))(nothing_async),
        "aiobreaker": aiobreaker.CircuitBreaker()(nothing_async),
        "purgatory": purgatory.AsyncCircuitBreakerFactory()("bench")(nothing_async),
    }
    figures = async_overheads(nothing_async, asynchronous, calls=CALLS, repetitions=REPETITIONS)
    report.table("closed breaker, async", "µs over the bare call", figures, "redrive")
    fastest = min(figures[name].median for name in ("aiobreaker", "purgatory"))
    report.target("no more than the fastest breaker's", figures["redrive"].median / fastest, 1.0)


def import_milliseconds(statement: str) -> float:
    # httpx also loads its command line if click is installed; that does not count.
    code = (
        "import sys; sys.modules['click'] = None; from time import perf_counter as now; "
        f"t = now(); {statement}; print((now() - t) * 1000)"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def compare_imports(report: Report) -> None:
    statements = {
        "redrive": "import redrive",
        "redrive.retry": "from redrive import retry",
        "httpx": "import httpx",
        "tenacity": "import tenacity",
        "stamina": "import stamina",
    }
    figures = {name: Figure() for name in statements}
    for _ in range(REPETITIONS):
        for name, statement in statements.items():
            figures[name].values.append(import_milliseconds(statement))
    report.table("import", "ms", figures, "redrive")
    report.target("half of httpx's", figures["redrive"].median / figures["httpx"].median, 0.5)


def main() -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    # Half of the measured calls fail; a budget that stops them would distort the measurement.
    dependency("bench", budget=BudgetPolicy(capacity=1e9))
    report = Report()
    print(f"Python {sys.version.split()[0]}; medians of {REPETITIONS} interleaved repetitions")
    compare_retries(report)
    compare_single_calls(report)
    compare_failures(report)
    compare_breakers(report)
    compare_imports(report)
    report.end()


if __name__ == "__main__":
    main()
