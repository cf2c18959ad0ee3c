"""A worker's memory stays within the limit that docs/operations/sizing.md gives."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import bench, new_app, working

from redrive.app import Redrive
from redrive.engine.claimer import SIZED_CLAIMS
from redrive.engine.invoker import Threads
from redrive.engine.worker import Worker
from redrive.engine.worker_parts import WorkerOptions
from redrive.model.claim import Claim
from redrive.parts import parts_of
from redrive.store.leases import Leases

BASE, BUDGET, COPIES = 60, 34, 4
"""Megabytes of an idle worker, megabytes of payloads by default, and the copies of a text in a worker.

The copies are the text as read, the argument, the result, and the text as written.
"""
RUNS, CONCURRENCY = 200, 100


def _worker(app: Redrive, **options: Any) -> Worker:
    """A worker whose parts the test calls, in virtual time too."""
    parts = parts_of(app)
    return parts.worker(WorkerOptions(**{**parts.declared.worker_defaults, **options}), Threads(1))


async def a_worker(url: str, what: str, number: int) -> str:
    command = (sys.executable, "-m", "tests.engine.worker_memory", url, what, str(number))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_6_a_hundred_payloads_of_a_megabyte_at_once_stay_within_the_bound(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    await a_worker(url, "start", RUNS)

    peak = int(await a_worker(url, "work", CONCURRENCY))

    assert peak <= BASE + BUDGET * COPIES


async def test_6_a_worker_claims_no_more_bytes_than_it_may_hold(tmp_path: Path) -> None:
    app = new_app(f"sqlite:///{tmp_path / 'work.db'}", durable=False)
    at_once: list[int] = []
    running = 0

    @app.task
    async def take(text: str) -> int:
        nonlocal running
        running += 1
        await asyncio.sleep(0.02)
        at_once.append(running)
        running -= 1
        return len(text)

    await app.open()
    runs = [await app.start(take, "x" * 1_000) for _ in range(40)]
    async with working(app, payload_bytes=4_500, poll_seconds=30.0) as worker:
        assert [await run.result(60) for run in runs] == [1_000] * 40
        assert worker.in_flight.bytes == 0
    assert max(at_once) == 5


async def test_a_payload_larger_than_the_budget_is_executed(tmp_path: Path) -> None:
    app = new_app(f"sqlite:///{tmp_path / 'work.db'}", durable=False)

    @app.task
    async def take(text: str) -> int:
        return len(text)

    await app.open()
    runs = [await app.start(take, "x" * 1_000) for _ in range(3)]
    async with working(app, payload_bytes=10):
        assert [await run.result(60) for run in runs] == [1_000] * 3


async def test_a_large_payload_limits_claims_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited claim reads the size of each payload first, so it is slower."""
    app = new_app()
    limits: list[int | None] = []
    real = Leases.claim

    async def claim(leases: Leases, *values: Any) -> list[Claim]:
        found = await real(leases, *values)
        if found:
            limits.append(values[-1])
        return found

    @app.task
    async def take(text: str) -> int:
        return len(text)

    async with bench(app):
        monkeypatch.setattr(Leases, "claim", claim)
        worker = _worker(app, concurrency=10, payload_bytes=50_000)
        for length in (1, 1, 6_000, *(1 for _ in range(SIZED_CLAIMS + 1))):
            await app.start(take, "x" * length)
            await worker.work_off()
    assert [limit is None for limit in limits] == [
        False,
        True,
        True,
        *(False for _ in range(SIZED_CLAIMS)),
        True,
    ]


@pytest.mark.parametrize(
    ("text", "payload_bytes", "claimed"),
    [("x", 1_500, 2), ("x" * 1_000, 1_500, 2), ("x" * 1_600, 1_500, 1), ("é" * 1_000, 1_500, 1)],
    ids=["small", "second exceeds", "first exceeds", "first exceeds in bytes"],
)
async def test_a_claim_goes_on_with_the_next_queue_unless_bytes_ended_it(
    text: str, payload_bytes: int, claimed: int
) -> None:
    app = new_app(queues=["one", "two"])

    @app.task
    async def take(text: str) -> int:
        return len(text)

    async with bench(app):
        worker = _worker(app, concurrency=10, payload_bytes=payload_bytes, queues=("one", "two"))
        for queue in ("one", "two"):
            await app.start(take, text, queue=queue)
        assert await worker.claimer.claim(10) == claimed
        await worker.work_off()
