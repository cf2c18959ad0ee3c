"""One measurement in a separate process: reads an order as JSON, prints its figures as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from bench.dead_letters import failure_rate, fill_database, query_times, replay_rate
from bench.work.contender import entry


@dataclass(frozen=True)
class Order:
    """A measurement to make.

    what      the name of the measurement
    database  sqlite or postgresql
    url       the address of the database
    seconds   the approximate duration
    variant   the omitted parts
    number    of letters, replays or repetitions
    groups    the number of failures among the letters
    """

    what: str
    database: str
    url: str
    seconds: float = 1.0
    variant: str = ""
    number: int = 0
    groups: int = 0

    @property
    def line(self) -> str:
        return json.dumps(asdict(self))

    @property
    def label(self) -> str:
        return f"redrive ({self.database})"


MICROSECONDS = " (µs of processor time)"

Figures = dict[str, float]
Measure = Callable[[Order], Coroutine[Any, Any, Figures]]


async def _bury(order: Order) -> Figures:
    rate, effort = await failure_rate.rate(entry(order.label), order.url, order.variant, order.seconds)
    what = f"fail for good, {order.variant}"
    return {what: rate, what + MICROSECONDS: effort}


async def _fill(order: Order) -> Figures:
    return {"fill (s)": await fill_database.fill(order.url, order.number, order.groups)}


async def _read(order: Order) -> Figures:
    return await query_times.milliseconds(order.url, order.number)


async def _plain(order: Order) -> Figures:
    rate, effort = await replay_rate.plain(entry(order.label), order.url, order.number)
    return {"plain work": rate, "plain work" + MICROSECONDS: effort}


async def _many(order: Order) -> Figures:
    found = await replay_rate.many(order.url, order.number)
    return {
        "replay, many": found.rate,
        "replay, many, from start to done": found.rate_from_start,
        "replay, many" + MICROSECONDS: found.effort,
        "plan (ms)": found.planning,
        "start (ms)": found.starting,
    }


def _one_by_one(what: str, callers: int) -> Measure:
    async def measure(order: Order) -> Figures:
        return {what: await replay_rate.one_by_one(order.url, order.number, callers)}

    return measure


MEASURES: dict[str, Measure] = {
    "bury": _bury,
    "fill": _fill,
    "read": _read,
    "plain work": _plain,
    "replay, many": _many,
    "replay, one": _one_by_one("replay, one", 1),
    "replay, one, 8 callers": _one_by_one("replay, one, 8 callers", 8),
}


def main(line: str) -> None:
    logging.disable(logging.CRITICAL)
    order = Order(**json.loads(line))
    print(json.dumps(asyncio.run(MEASURES[order.what](order))))


if __name__ == "__main__":
    main(sys.argv[1])
