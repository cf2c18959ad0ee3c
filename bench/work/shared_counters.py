"""The board: a few numbers in memory that the measuring process and its workers share.

Workers note on it when they begin jobs, so that nobody has to ask the database while it is being measured.
Each worker writes into a row of its own; times are nanoseconds of the monotonic clock, which all processes
share.
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
        """Everything is imported: begin together with the others."""
        self._numbers[worker * _WIDTH + _READY] = 1
        while not self._numbers[_GO]:
            time.sleep(0.001)

    def note(self, worker: int) -> None:
        """A job is begun."""
        row, now = worker * _WIDTH, time.monotonic_ns()
        with self._lock:
            if not self._numbers[row + _FIRST]:
                self._numbers[row + _BEFORE] = self.begun
                self._numbers[row + _FIRST] = now
            self._numbers[row + _LATEST] = now
            self._numbers[row + _BEGUN] += 1

    def note_done(self, worker: int) -> None:
        """A job has nothing more to do."""
        with self._lock:
            self._numbers[worker * _WIDTH + _DONE] += 1

    # For the one who measures

    def go(self) -> None:
        self._numbers[_GO] = 1

    @property
    def ready(self) -> int:
        return sum(self._column(_READY))

    @property
    def begun(self) -> int:
        """How many jobs were begun by all workers."""
        return sum(self._column(_BEGUN))

    @property
    def done(self) -> int:
        """How many jobs have nothing more to do; the database may not know it yet."""
        return sum(self._column(_DONE))

    @property
    def latest(self) -> int:
        """When the latest job was begun."""
        return max(self._column(_LATEST))

    @property
    def start(self) -> tuple[int, int]:
        """When the last worker began its first job, and how many the others had begun until then."""
        return max(zip(self._column(_FIRST), self._column(_BEFORE), strict=True))

    def _column(self, place: int) -> list[int]:
        return list(self._numbers[place:_GO:_WIDTH])
