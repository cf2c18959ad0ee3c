"""A process of a contender: imports everything, waits for the others, then consumes or works until killed."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from bench.streams.contender import entry
from bench.work.jobs import Jobs, Kind
from bench.work.shared_counters import SharedCounters

START_SECONDS = 60.0


class Processes:
    def __init__(
        self, counters: SharedCounters, running: Sequence[subprocess.Popen[bytes]], log: Path
    ) -> None:
        self.counters = counters
        self._running = running
        self._log = log

    def go(self) -> None:
        """Let all of them begin, as soon as they have imported everything."""
        deadline = monotonic() + START_SECONDS
        while self.counters.ready < len(self._running):
            self.check(deadline)
            sleep(0.01)
        self.counters.go()

    def check(self, deadline: float) -> None:
        if any(process.poll() is not None for process in self._running):
            raise RuntimeError(f"a process has ended: {self._log.read_text()[-2000:]}")
        if monotonic() > deadline:
            raise RuntimeError(f"not done in time: {self._log.read_text()[-2000:]}")


@contextmanager
def processes(label: str, database: str, redis: str, roles: Sequence[str]) -> Iterator[Processes]:
    """Start a process for each role, `consume` or `work`."""
    with TemporaryDirectory(prefix="redrive-bench-") as folder:
        counters, log = SharedCounters(Path(folder) / "board"), Path(folder) / "log"
        running: list[subprocess.Popen[bytes]] = []
        try:
            for number, role in enumerate(roles):
                arguments = (label, database, redis, role, str(counters.path), str(number))
                with log.open("ab") as output:
                    command = [sys.executable, "-m", "bench.streams.process", *arguments]
                    running.append(subprocess.Popen(command, stdout=output, stderr=output))
            yield Processes(counters, running, log)
        finally:
            for process in running:
                process.kill()
                process.wait()


def main(label: str, database: str, redis: str, role: str, counters: str, number: str) -> None:
    logging.disable(logging.CRITICAL)
    contender = entry(label).at(database, redis)
    shared = SharedCounters(Path(counters))
    shared.wait(int(number))
    getattr(contender, role)(Jobs(Kind.NOTHING, shared, int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
