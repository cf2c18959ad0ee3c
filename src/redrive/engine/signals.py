"""Signals that wake and stop a worker: events between its parts, timers, SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redrive.clock import Clock

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """The events by which the parts of one worker communicate.

    ready         there may be runs to claim
    due           runs may have become due, or no longer need to be held
    replay_ended  a bulk replay may start its next items, or has finished
    stopping      the worker starts no more work
    """

    def __init__(self, clock: Clock) -> None:
        self.ready = asyncio.Event()
        self.due = asyncio.Event()
        self.replay_ended = asyncio.Event()
        self.stopping = asyncio.Event()
        self._clock = clock
        self._next_due: float | None = None

    def due_in(self, seconds: float) -> None:
        """Note that a run is due in that many seconds, and wake the waiting loop if that is earlier."""
        if seconds <= 0.0:
            self.ready.set()
        if self.expect_due(seconds):
            self.due.set()

    def expect_due(self, seconds: float) -> bool:
        """Note that a run is due in that many seconds. Return False if another run is due earlier."""
        at = self._clock.monotonic() + max(0.0, seconds)
        if self._next_due is not None and self._next_due <= at:
            return False
        self._next_due = at
        return True

    def forget_due(self) -> None:
        self._next_due = None
        self.due.clear()

    def seconds_until_due(self, maximum: float) -> float:
        if self._next_due is None:
            return maximum
        return min(maximum, max(0.0, self._next_due - self._clock.monotonic()))


async def wait_for(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for the event. Return False if it is not set within that many seconds of the clock."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
        return event.is_set()
    finally:
        waiting.cancel()
        timer.cancel()


@contextmanager
def on_stop_signal(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` with the name of every SIGTERM and SIGINT instead of terminating the process."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
