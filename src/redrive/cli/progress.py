"""Wait for work to finish, and draw progress bars on stderr if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redrive.cli.client import ApiError, Client
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.terminal import has_rich, notice, wants_color
from redrive.cli.worker import PATH, START, is_served
from redrive.words.time import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

FIRST_PAUSE_SECONDS, PAUSE_FACTOR, MAX_PAUSE_SECONDS = 0.1, 1.5, 2.0
MISSING_WORKER_SECONDS = 2.0
"""How long to wait before reporting a missing worker."""
BAR_WIDTH = 30


class Poller:
    """Sleeps between requests, longer each time, until the timeout."""

    def __init__(self, client: Client, timeout: float | None, report: Callable[[str], None] = notice) -> None:
        self._client = client
        self._timeout = timeout
        self._report = report
        self._started = time.monotonic()
        self._pause = FIRST_PAUSE_SECONDS
        self._is_worker_checked = False

    def wait(self, what: str, queue: str | None, *, waits: bool) -> None:
        """Sleep until the next poll.

        `waits`: no worker has started it yet; report it if no worker serves the queue (None: any queue).
        """
        passed = time.monotonic() - self._started
        if self._timeout is not None and passed >= self._timeout:
            self._report(f"Timed out after {duration(passed)}. {what} is still in progress and continues.")
            raise CommandExit(Exit.TIMED_OUT)
        if waits and passed >= MISSING_WORKER_SECONDS and not self._is_worker_checked:
            self._is_worker_checked = self._report_missing_worker(queue)
        left = self._pause if self._timeout is None else max(0.0, self._timeout - passed)
        time.sleep(min(self._pause, left))
        self._pause = min(MAX_PAUSE_SECONDS, self._pause * PAUSE_FACTOR)

    def _report_missing_worker(self, queue: str | None) -> bool:
        """Report if no worker serves the queue. Return whether to stop checking."""
        try:
            workers = self._client.get(PATH)["items"]
        except ApiError:  # the key may not list workers
            return True
        if is_served(workers, queue):
            return False
        missing = "No worker is running" if queue is None else f"No worker serves queue {queue!r}"
        self._report(f"{missing}. Start one with `{START}`. Waiting …")
        return True


def can_draw() -> bool:
    return sys.stderr.isatty() and has_rich()


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """Return a bar with these columns that leaves other output on stdout and stderr alone."""
    from rich import progress as rich_progress

    return rich_progress.Progress(*columns, console=_console(), redirect_stdout=False, redirect_stderr=False)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to the number done. Without a total, the bar only pulses."""
    if not can_draw():
        yield lambda number: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label, markup=False), BarColumn(BAR_WIDTH), MofNCompleteColumn())
    with progress_bar(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda number: bar.advance(task, number)


@contextmanager
def activity() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current activity on one line, replacing the previous one."""
    if not can_draw():
        yield lambda text: None
        return
    from rich.status import Status
    from rich.text import Text

    with Status("", console=_console()) as status:
        yield lambda text: status.update(Text(text, no_wrap=True, overflow="ellipsis"))


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, color_system="auto" if wants_color() else None, highlight=False)
