"""Running the consumers of an application, alone or beside a worker."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError, NotFoundError
from redrive.events import Stream
from redrive.model.event import WorkerStopping
from redrive.parts import parts_of
from redrive.streams.client import connection_errors
from redrive.streams.consumer import Consumer, ConsumerParts
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.app import Redrive


def streams_of(app: Redrive, names: Collection[str] = ()) -> Sequence[Stream]:
    """Return the streams of an application, or those with these names."""
    known = parts_of(app).declared.streams
    if not known:
        raise InvalidValueError("the application declares no stream; declare one with app.stream(name, url)")
    for name in names:
        if name not in known:
            raise NotFoundError(f"there is no stream {name!r:.100}; {suggest(name, known)}")
    return [stream for name, stream in known.items() if not names or name in names]


def consumer_of(app: Redrive, stream: Stream) -> Consumer:
    """Create a consumer of a stream. Any number of them may run, in any number of processes."""
    parts = parts_of(app)
    connection_errors()  # raises where the package redis is missing
    return Consumer(
        stream,
        ConsumerParts(
            control=parts.stream_control(stream),
            ingest=parts.entry_ingest(stream),
            mirror=parts.letter_mirror(stream),
            redactor=parts.redactor,
            clock=parts.clock,
            random=parts.random,
        ),
    )


async def consume(app: Redrive, names: Collection[str] = (), stop: asyncio.Event | None = None) -> None:
    """Consume the streams of an application until `stop` is set, or until SIGTERM or SIGINT without it."""
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    consumers = [consumer_of(app, stream) for stream in streams_of(app, names)]
    await app.open()
    running = [asyncio.create_task(consumer.run()) for consumer in consumers]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
        for consumer in consumers:
            consumer.stop()
        await asyncio.gather(*running)
    finally:
        for task in (stopped, *running):
            task.cancel()
        await asyncio.gather(stopped, *running, return_exceptions=True)


def run_consumers(app: Redrive, names: Collection[str] = ()) -> None:
    """Consume streams until SIGTERM or SIGINT, in a process that does nothing else."""

    async def run() -> None:
        try:
            await consume(app, names)
        finally:
            await app.close()

    asyncio.run(run())


def run_worker_with_streams(app: Redrive, **options: Any) -> None:
    """Run a worker and the consumers of all streams until SIGTERM or SIGINT, in one process."""
    asyncio.run(_work_and_consume(app, options))


async def _work_and_consume(app: Redrive, options: dict[str, Any]) -> None:
    stop, worker = asyncio.Event(), app.worker(**options)
    app.listen(lambda event: stop.set() if isinstance(event, WorkerStopping) else None)
    consuming = asyncio.create_task(consume(app, stop=stop))
    working = asyncio.create_task(worker.run(signals=True))
    try:
        await asyncio.wait([consuming, working], return_when=asyncio.FIRST_COMPLETED)
        if consuming.done() and not working.done():
            worker.stop()
        stop.set()
        await asyncio.gather(working, consuming)
    finally:
        for task in (consuming, working):
            task.cancel()
        with suppress(Exception):
            await asyncio.gather(consuming, working, return_exceptions=True)
        await app.close()
