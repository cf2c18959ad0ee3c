"""Waiting for what others do: looking again and again, less and less often, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click

from redrive.cli.client import ApiError, Client
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import Row
from redrive.cli.parameters import DURATION
from redrive.cli.terminal import notice
from redrive.cli.times import length
from redrive.cli.workers import PATH, START, is_heard

FIRST, FACTOR, MAX_LENGTH = 0.1, 1.5, 2.0
PATIENCE = 2.0
"""Seconds after which somebody who waits is told that there is no worker."""

timeout_option = click.option(
    "--timeout", type=DURATION, metavar="LENGTH", help="Wait no longer than this, such as 10m."
)


class Poller:
    def __init__(self, client: Client, timeout: float | None, say: Callable[[str], None] = notice) -> None:
        self._client = client
        self._timeout = timeout
        self._say = say
        self._began = time.monotonic()
        self._pause = FIRST
        self._told = False

    def wait(self, what: str, queue: str | None, *, waits: bool) -> None:
        """Until it is worth to look again. `waits`: nobody has begun with it, in this queue or in any."""
        passed = time.monotonic() - self._began
        if self._timeout is not None and passed >= self._timeout:
            self._say(f"After {length(passed)} {what} has not ended; it goes on without being watched.")
            raise Ended(Exit.TIMED_OUT)
        if waits and passed >= PATIENCE and not self._told:
            self._told = self._tell_of_workers(queue)
        left = self._pause if self._timeout is None else max(0.0, self._timeout - passed)
        time.sleep(min(self._pause, left))
        self._pause = min(MAX_LENGTH, self._pause * FACTOR)

    def _tell_of_workers(self, queue: str | None) -> bool:
        """Looked at anew until it is told: the last one may stop while somebody waits for it."""
        try:
            workers = self._client.get(PATH)["items"]
        except ApiError:  # whoever may not see them waits without being told
            return True
        if serving(workers, queue):
            return False
        none = "No worker is at work" if queue is None else f"No worker serves the queue {queue!r}"
        self._say(f"{none}: `{START}` starts one. Waiting …")
        return True


def serving(workers: Sequence[Row], queue: str | None) -> bool:
    """Is there a worker for this queue, or any? One that names none serves them all."""
    heard = [each for each in workers if is_heard(each)]
    return any(queue is None or not each["queues"] or queue in each["queues"] for each in heard)
