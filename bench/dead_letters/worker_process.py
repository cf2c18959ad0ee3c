"""A worker in a separate process, with its options."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.work.jobs import Kind
from bench.work.shared_counters import SharedCounters
from bench.work.workers import Workers


@contextmanager
def worker(url: str, kind: Kind, spared: Sequence[str] = ()) -> Iterator[Workers]:
    """Run a worker: jobs fail if the kind is FAIL; otherwise jobs that have failed before succeed."""
    with TemporaryDirectory(prefix="redrive-bench-") as folder:
        counters, log = SharedCounters(Path(folder) / "board"), Path(folder) / "log"
        command = [sys.executable, "-m", "bench.dead_letters.worker", url, kind, str(counters.path), *spared]
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield Workers(counters, [process], log)
        finally:
            process.kill()
            process.wait()
