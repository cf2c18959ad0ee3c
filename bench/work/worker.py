"""A worker process: imports everything, waits for the others, then executes jobs until it is killed."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from bench.work.contender import entry
from bench.work.jobs import Jobs, Kind
from bench.work.shared_counters import SharedCounters


def main(label: str, url: str, kind: str, counters: str, worker: str) -> None:
    logging.disable(logging.CRITICAL)  # the speed of logging must not count
    contender = entry(label).at(url)
    shared = SharedCounters(Path(counters))
    shared.wait(int(worker))
    contender.work(Jobs(Kind(kind), shared, int(worker)))


if __name__ == "__main__":
    main(*sys.argv[1:])
