"""One measurement: a process that gets a database and prints its results as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from bench.work import disk, drain, enqueue, fill_database, loaded_database, pickup, snapshot, worker_memory
from bench.work.contender import Entry, entry
from bench.work.jobs import Kind

LEAST_RATE = 1_000
"""Jobs or rows per second: a long backlog, or many rows, must not be slower than this."""


@dataclass(frozen=True)
class Order:
    """A measurement to make.

    what     the name of the measurement
    label    the contender
    url      the address of its database
    seconds  the approximate duration
    burden   the kind of rows that fill the database
    rows     their number
    jobs     the number of jobs in a short backlog
    backlog  the number of jobs in a long backlog
    hold     how many seconds a session holds a snapshot
    """

    what: str
    label: str
    url: str
    seconds: float
    burden: str = ""
    rows: int = 0
    jobs: int = 0
    backlog: int = 0
    hold: float = 0.0

    @property
    def line(self) -> str:
        return json.dumps(asdict(self))

    @property
    def case(self) -> str:
        if self.backlog:
            return f"{self.jobs:,} and {self.backlog:,}"
        if self.hold:
            return f"{self.hold:g} s of {self.jobs:,}"
        return f"{self.rows:,} {self.burden}" if self.rows else self.burden

    @property
    def timeout(self) -> float:
        return 240.0 + 2 * self.hold + (self.backlog + self.rows) / LEAST_RATE


Figures = dict[str, float]
Measure = Callable[[Entry, Order], Coroutine[Any, Any, Figures]]


def _drain(kind: Kind, workers: int = 1) -> Measure:
    async def measure(entry: Entry, order: Order) -> Figures:
        return {order.what: await drain.rate(entry, order.url, kind, workers, order.seconds)}

    return measure


def _enqueue(callers: int) -> Measure:
    async def measure(entry: Entry, order: Order) -> Figures:
        return {order.what: await enqueue.one_by_one(entry, order.url, order.seconds, callers)}

    return measure


async def _bulk(entry: Entry, order: Order) -> Figures:
    return {order.what: await enqueue.bulk(entry, order.url, order.seconds)}


async def _pick_up(entry: Entry, order: Order) -> Figures:
    half, most = await pickup.milliseconds(entry, order.url, order.seconds)
    return {"pick-up, p50": half, "pick-up, p99": most}


async def _memory(entry: Entry, order: Order) -> Figures:
    return {order.what: await worker_memory.megabytes(entry, order.url, order.seconds)}


async def _fill(entry: Entry, order: Order) -> Figures:
    return {order.what: await fill_database.fill(order.url, order.burden, order.rows)}


async def _grown(entry: Entry, order: Order) -> Figures:
    enqueued, drained = await loaded_database.rates(entry, order.url, order.seconds)
    return {"enqueue bulk": enqueued, "drain, 1 process": drained}


async def _disk(entry: Entry, order: Order) -> Figures:
    return {order.what: await disk.bytes_per_run(entry, order.url)}


async def _backlog(entry: Entry, order: Order) -> Figures:
    short, long = await drain.backlog_rates(entry, order.url, order.jobs, order.backlog)
    return {"drain, short backlog": short, "drain, long backlog": long}


async def _snapshot(entry: Entry, order: Order) -> Figures:
    without, held = await snapshot.rates(entry, order.url, order.jobs, order.hold)
    return {"drain, no snapshot": without, "drain, snapshot held": held}


MEASURES: dict[str, Measure] = {
    "enqueue one": _enqueue(1),
    "enqueue one, 8 callers": _enqueue(8),
    "enqueue bulk": _bulk,
    "drain, 1 process": _drain(Kind.NOTHING),
    "drain, 2 processes": _drain(Kind.NOTHING, 2),
    "fail once": _drain(Kind.FAIL_ONCE),
    "fail for good": _drain(Kind.FAIL),
    "workflow": _drain(Kind.WORKFLOW),
    "pick-up": _pick_up,
    "memory": _memory,
    "disk": _disk,
    "backlog": _backlog,
    "snapshot": _snapshot,
    "fill": _fill,
    "grown": _grown,
}


def main(line: str) -> None:
    logging.disable(logging.CRITICAL)
    order = Order(**json.loads(line))
    print(json.dumps(asyncio.run(MEASURES[order.what](entry(order.label), order))))


if __name__ == "__main__":
    main(sys.argv[1])
