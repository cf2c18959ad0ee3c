"""Polling: looking again and again, less and less often, until something has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click

from redrive.cli.client import ApiError, Client
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import Row
from redrive.cli.parameters import DURATION
from redrive.cli.terminal import notice
from redrive.cli.workers import PATH, START, is_heard
from redrive.words.time import duration

FIRST_PAUSE_SECONDS, PAUSE_FACTOR, MAX_PAUSE_SECONDS = 0.1, 1.5, 2.0
MISSING_WORKER_SECONDS = 2.0
"""How long to wait before mentioning that there is no worker."""

timeout_option = click.option(
    "--timeout", type=DURATION, metavar="LENGTH", help="Wait no longer than this, such as 10m."
)


class Poller:
    """Waits between two looks, longer and longer, and not forever."""

    def __init__(self, client: Client, timeout: float | None, say: Callable[[str], None] = notice) -> None:
        self._client = client
        self._timeout = timeout
        self._say = say
        self._began = time.monotonic()
        self._pause = FIRST_PAUSE_SECONDS
        self._mentioned = False

    def wait(self, what: str, queue: str | None, *, waits: bool) -> None:
        """Sleep until the next look. `waits`: no worker has started it, in this queue or in any."""
        passed = time.monotonic() - self._began
        if self._timeout is not None and passed >= self._timeout:
            self._say(f"After {duration(passed)} {what} has not ended; it goes on without being watched.")
            raise Ended(Exit.TIMED_OUT)
        if waits and passed >= MISSING_WORKER_SECONDS and not self._mentioned:
            self._mentioned = self._mention_missing_worker(queue)
        left = self._pause if self._timeout is None else max(0.0, self._timeout - passed)
        time.sleep(min(self._pause, left))
        self._pause = min(MAX_PAUSE_SECONDS, self._pause * PAUSE_FACTOR)

    def _mention_missing_worker(self, queue: str | None) -> bool:
        """Say so, once, if no worker serves the queue; the last one may stop at any time."""
        try:
            workers = self._client.get(PATH)["items"]
        except ApiError:  # the key may not list workers
            return True
        if is_served(workers, queue):
            return False
        none = "No worker is at work" if queue is None else f"No worker serves the queue {queue!r}"
        self._say(f"{none}: `{START}` starts one. Waiting …")
        return True


def is_served(workers: Sequence[Row], queue: str | None) -> bool:
    """Whether a worker serves this queue, or any queue. A worker that names no queues serves all."""
    return any(
        is_heard(worker) and (queue is None or not worker["queues"] or queue in worker["queues"])
        for worker in workers
    )
