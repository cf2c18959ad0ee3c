"""Waiting for what others do: looking again and again, less and less often, and not for ever."""

from __future__ import annotations

import time

from redrive.cli.client import AnswerError, Client
from redrive.cli.outcome import Ended, Exit
from redrive.cli.text import notice
from redrive.cli.times import length

FIRST, FACTOR, LONGEST = 0.1, 1.5, 2.0
PATIENCE = 5.0
"""Seconds after which somebody who waits is told that there is no worker."""


class Follower:
    def __init__(self, client: Client, timeout: float | None) -> None:
        self._client = client
        self._timeout = timeout
        self._began = time.monotonic()
        self._pause = FIRST
        self._looked = False

    def wait(self, what: str, queue: str, *, waits: bool) -> None:
        """Until it is worth to look again. `waits`: nobody has begun with it."""
        passed = time.monotonic() - self._began
        if self._timeout is not None and passed >= self._timeout:
            notice(f"After {length(passed)} {what} has not ended; it goes on without being watched.")
            raise Ended(Exit.TIMED_OUT)
        if waits and passed >= PATIENCE and not self._looked:
            self._looked = True
            self._tell_of_workers(queue)
        left = self._pause if self._timeout is None else max(0.0, self._timeout - passed)
        time.sleep(min(self._pause, left))
        self._pause = min(LONGEST, self._pause * FACTOR)

    def _tell_of_workers(self, queue: str) -> None:
        try:
            workers = self._client.get("/api/v1/workers")["items"]
        except AnswerError:  # whoever may not see them waits without being told
            return
        alive = [each for each in workers if each["seconds_silent"] < 60.0]
        if not any(not each["queues"] or queue in each["queues"] for each in alive):
            notice(f"No worker serves the queue {queue!r}: `redrive worker MODULE:APP` starts one. Waiting …")
