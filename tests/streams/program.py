"""A process that consumes orders and kills itself at a point: `python -m tests.streams.program …`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.events.conftest import Site
from tests.streams.conftest import Broker, Orders
from tests.streams.test_invalid_entries import AT_ONCE

from redrive.streams.commands import StreamCommands
from redrive.streams.consumer import Consumer

POINTS = ("read", "decoded", "written", "committed", "acknowledged", "buried", "mirrored", "removed")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return the function, which kills this process right after it has returned for the last time."""
    left = times

    async def called(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        result = await call(*arguments, **options)
        left -= 1
        if left == 0:
            die()
        return result

    return called


def arm(consumer: Consumer, point: str, times: int) -> None:
    """Let the process die at a point, when it reaches it for the `times`-th time."""
    ingest, mirror = consumer._ingest, consumer._parts.mirror
    commands: Any = StreamCommands
    match point:
        case "read":
            commands.read = dying_after(commands.read, times)
        case "decoded":
            consumer._store = _die_before  # type: ignore[method-assign,assignment]
        case "written":
            recorder: Any = ingest._parts.recorder
            recorder.write = dying_after(recorder.write, times)
        case "committed":
            ingest.store = dying_after(ingest.store, times)  # type: ignore[method-assign]
        case "acknowledged":
            commands.acknowledge = dying_after(commands.acknowledge, times)
        case "buried":
            ingest.bury = dying_after(ingest.bury, times)  # type: ignore[method-assign]
        case "mirrored":
            commands.mirror = dying_after(commands.mirror, times)
        case "removed":
            mirror.remove = dying_after(mirror.remove, times)  # type: ignore[method-assign]


async def _die_before(*_: Any) -> None:
    die()


def crashing_orders(site: Site, url: str, **options: Any) -> Orders:
    options = {"retry": AT_ONCE, "idle_seconds": 0.1, "batch": 7, **options}
    return Orders(site, Broker(url, None), **options)


async def main(url: str, schema: str, redis_url: str, point: str, times: int, ordered_by: str | None) -> None:
    orders = crashing_orders(Site(url, schema), redis_url).project(ordered_by=ordered_by)
    await orders.app.open()
    consumer = orders.consumer()
    arm(consumer, point, times)
    await consumer.run()


if __name__ == "__main__":
    _, database, schema, broker, point, times, order = sys.argv
    asyncio.run(main(database, schema, broker, point, int(times), order or None))
