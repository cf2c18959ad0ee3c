"""SIGTERM and SIGINT, for the time that a worker runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def until_signalled(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` at every signal to end, instead of dying of it."""
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, told)
    try:
        yield
    finally:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
