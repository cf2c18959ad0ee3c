"""Worker processes of a measurement, and waiting for their progress."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from bench.work.contender import Entry
from bench.work.jobs import Kind
from bench.work.shared_counters import SharedCounters

PATIENCE = 60.0
"""Seconds without a job that starts or ends."""


class Workers:
    def __init__(self, counters: SharedCounters, processes: list[subprocess.Popen[bytes]], log: Path) -> None:
        self.counters = counters
        self._processes = processes
        self._log = log

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def ready(self) -> None:
        await self.until(lambda: self.counters.ready == len(self._processes), 0.01)

    async def begin_together(self) -> None:
        await self.ready()
        self.counters.go()
        await self.until(lambda: self.counters.begun > 0, 0.001)

    async def until(self, condition: Callable[[], bool], interval: float) -> None:
        progress, deadline = -1, 0.0
        while not condition():
            if progress != (progress := self.counters.begun + self.counters.done):
                deadline = monotonic() + PATIENCE
            self.check(deadline)
            await asyncio.sleep(interval)

    def check(self, deadline: float) -> None:
        if any(process.poll() is not None for process in self._processes):
            raise RuntimeError(f"a worker has ended: {self._last_words()}")
        if monotonic() > deadline:
            raise RuntimeError(
                f"not done in {PATIENCE:g} s; {self.counters.begun} jobs begun; {self._last_words()}"
            )

    def _last_words(self) -> str:
        return self._log.read_text()[-2000:]


@contextmanager
def workers(entry: Entry, url: str, kind: Kind, count: int) -> Iterator[Workers]:
    with TemporaryDirectory(prefix="redrive-bench-") as folder:
        counters, log = SharedCounters(Path(folder) / "board"), Path(folder) / "log"
        processes = []
        try:
            for number in range(count):
                arguments = (entry.label, url, kind, str(counters.path), str(number))
                with log.open("ab") as output:
                    command = [sys.executable, "-m", "bench.work.worker", *arguments]
                    processes.append(subprocess.Popen(command, stdout=output, stderr=output))
            yield Workers(counters, processes, log)
        finally:
            for process in processes:
                process.kill()
                process.wait()
