"""Shared counters: a few numbers in memory that the measuring process and its workers share.

Workers note when they start jobs, so that no process queries the database during a measurement. Each worker
writes to its own row; times are nanoseconds of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from threading import Lock

MAX_WORKERS = 8
_READY, _FIRST, _BEGUN, _BEFORE, _LATEST, _DONE, _WIDTH = range(7)
_GO = MAX_WORKERS * _WIDTH
_LENGTH = _GO + 1


class SharedCounters:
    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(8 * _LENGTH))
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 8 * _LENGTH)
        self._numbers = memoryview(memory).cast("q")
        self._lock = Lock()

    # For a worker

    def wait(self, worker: int) -> None:
        """Wait until all workers have imported everything, and start together."""
        self._numbers[worker * _WIDTH + _READY] = 1
        while not self._numbers[_GO]:
            time.sleep(0.001)

    def note(self, worker: int) -> None:
        """Note that a job has started."""
        row, now = worker * _WIDTH, time.monotonic_ns()
        with self._lock:
            if not self._numbers[row + _FIRST]:
                self._numbers[row + _BEFORE] = self.begun
                self._numbers[row + _FIRST] = now
            self._numbers[row + _LATEST] = now
            self._numbers[row + _BEGUN] += 1

    def note_done(self, worker: int) -> None:
        """Note that a job has nothing more to do."""
        with self._lock:
            self._numbers[worker * _WIDTH + _DONE] += 1

    # For the measuring process

    def go(self) -> None:
        self._numbers[_GO] = 1

    @property
    def ready(self) -> int:
        return sum(self._column(_READY))

    @property
    def begun(self) -> int:
        """Return how many jobs all workers have started."""
        return sum(self._column(_BEGUN))

    @property
    def done(self) -> int:
        """Return how many jobs have nothing more to do; the database may not have recorded it yet."""
        return sum(self._column(_DONE))

    @property
    def latest(self) -> int:
        """Return when the latest job started."""
        return max(self._column(_LATEST))

    @property
    def start(self) -> tuple[int, int]:
        """Return when the last worker started its first job, and the jobs that others had started by then."""
        return max(zip(self._column(_FIRST), self._column(_BEFORE), strict=True))

    def _column(self, place: int) -> list[int]:
        return list(self._numbers[place:_GO:_WIDTH])
