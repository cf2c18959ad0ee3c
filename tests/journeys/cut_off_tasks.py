"""A task that a child process can import."""

from __future__ import annotations

import time
from pathlib import Path

from redrive import Redrive
from redrive.parts import parts_of

app = Redrive("sqlite://:memory:", log=False)


@app.task(isolation="process", timeout=600.0)
def ticking(file: str) -> None:
    while True:
        with Path(file).open("a") as ticks:
            ticks.write(f"{time.monotonic()}\n")
        time.sleep(0.02)


def app_at(url: str) -> Redrive:
    """Register the same task in an application on this database."""
    there = Redrive(url, log=False)
    parts_of(there).registry.add_task(ticking)
    return there
