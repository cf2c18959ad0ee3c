"""A worker process that executes large payloads until none is left, and prints its peak memory in megabytes.

python -m tests.engine.worker_memory URL start NUMBER          start runs of 1 MB each
python -m tests.engine.worker_memory URL work CONCURRENCY      execute all of them
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from redrive import Redrive
from redrive.parts import parts_of
from redrive.store.run_listing import Depth

MEGABYTE = 1_000_000


def program(url: str) -> Redrive:
    app = Redrive(url, log=False, durable=False)

    @app.task
    async def echo(text: str) -> str:
        await asyncio.sleep(0.02)
        return text

    return app


async def start(app: Redrive, number: int) -> None:
    async with app:
        for _ in range(number):
            await app.start("echo", "x" * (MEGABYTE - 2))


async def work(app: Redrive, concurrency: int) -> None:
    async with app, app.worker(concurrency=concurrency):
        while await depths(app):
            await asyncio.sleep(0.1)
    print(peak())


def peak() -> int:
    """Return the peak memory of this program. `getrusage` would include the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


async def depths(app: Redrive) -> list[Depth]:
    return await parts_of(app).store.run_lists.overall_depths()


if __name__ == "__main__":
    url, what, number = sys.argv[1:]
    asyncio.run({"start": start, "work": work}[what](program(url), int(number)))
