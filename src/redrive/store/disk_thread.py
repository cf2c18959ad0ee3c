"""The thread on which a SQLite connection waits for the disk."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from redrive.forking import Pause

T = TypeVar("T")


class DiskThread:
    """Runs calls one at a time, in the order of submission.

    The futures and locks of a standard library executor cost a quarter of the time of a durable insert. The
    thread starts with the first call and ends with this object.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = False

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` on the thread, even if the future is cancelled."""
        if not self._started:
            self._started = True
            Thread(target=_run, args=(self._calls,), name="redrive-sqlite", daemon=True).start()
            weakref.finalize(self, self._calls.put, None)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(_Call(loop, future, work))
        return future

    def pause(self, first: Callable[[], object]) -> Pause | None:
        """Run `first` on the thread and let it rest; None if it has not started."""
        if not self._started:
            return None
        pause = Pause()

        def rest() -> None:
            first()
            pause.wait()

        self._calls.put(_Call(None, None, rest))
        pause.await_rest()
        return pause

    async def finish(self) -> None:
        """Wait until all submitted calls have run."""
        await asyncio.wait({self.submit(_nothing)})


class _Call(NamedTuple):
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | None
    work: Callable[[], Any]


def _run(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        value, error = None, None
        try:
            value = call.work()
        except BaseException as raised:  # noqa: BLE001 — the future passes it to the caller
            error = raised
        if call.loop is not None and call.future is not None:
            with suppress(RuntimeError):  # the event loop is closed, so no caller waits
                call.loop.call_soon_threadsafe(_settle, call.future, value, error)
        del call, value, error  # so that an idle thread keeps no object alive


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():  # cancelled
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _nothing() -> None:
    pass
