"""The watchdog of a stopping worker: ends the process if the worker does not stop by itself.

A blocked event loop hears no signal. Python writes the number of every signal to a socket, which a thread of
the watchdog reads and passes on to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from socket import socketpair
from threading import Thread

from redrive.engine.signals import STOP_SIGNALS

HURRY_SECONDS = 2.0
"""How long a worker may take to stop after a second signal, if its event loop does not answer."""
ANSWER_SECONDS = 1.0
"""How long the event loop may take to answer after the grace period."""
LAST_WRITES_SECONDS = 15.0
"""How long a worker whose event loop answers may write after its grace period."""


class StopWatchdog:
    """Ends the process when the grace period after a stop signal is over and the event loop is blocked.

    reason  returns why the worker has not stopped, for the message
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, grace_seconds: float, reason: Callable[[], str]
    ) -> None:
        self._loop = loop
        self._grace_seconds = grace_seconds
        self._reason = reason
        self._is_asked = False
        self._read, self._write = socketpair()
        self._write.setblocking(False)
        self._loop_socket = -1

    def __enter__(self) -> None:
        """Start watching. The event loop must already handle the stop signals."""
        self._loop_socket = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        Thread(target=self._watch, name="redrive-stop", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._loop_socket)
        self._write.close()

    def _watch(self) -> None:
        with self._read:
            while not (first := self._stop_signals(None)):
                if first is None:
                    return
            end = time.monotonic() + self._grace_seconds
            while (more := self._stop_signals(end)) != 0:
                if more is None:
                    return
                end = min(end, time.monotonic() + HURRY_SECONDS)
            if self._stop_signals(time.monotonic() + ANSWER_SECONDS) is None:
                return
            if not self._is_asked and self._stop_signals(time.monotonic() + LAST_WRITES_SECONDS) is None:
                return
        end_process(1, f"redrive: the worker did not stop in time: {self._reason()}. The process ends now.")

    def _stop_signals(self, end: float | None) -> int | None:
        """Pass signals on to the event loop until there are stop signals, and return their number.

        Return 0 at `end`, and None if the worker has stopped.
        """
        while True:
            self._ask_loop()
            self._read.settimeout(None if end is None else max(0.001, end - time.monotonic()))
            try:
                signals = self._read.recv(64)
            except TimeoutError:
                return 0
            if not signals:
                return None
            with suppress(OSError):
                os.write(self._loop_socket, signals)
            if count := sum(number in STOP_SIGNALS for number in signals):
                return count

    def _ask_loop(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_asked = False


def end_process(exit_code: int, message: str) -> None:
    """End the process at once, whatever its threads and its event loop are doing."""
    with suppress(Exception):
        sys.stderr.write(f"{message}\n")
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(exit_code)
