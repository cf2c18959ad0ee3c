"""Real processes use the same idempotency key: one executes, and its death frees the key (G6)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.journeys.idempotent import KEY, NUMBER, REQUEST, charge
from tests.journeys.world import PATIENCE, ROOT, World, until
from tests.store.build import value

from redrive.parts import parts_of

PROCESSES = 3


@contextmanager
def started(world: World, what: str) -> Iterator[subprocess.Popen[str]]:
    place = {"REDRIVE_DATABASE_URL": world.url, "REDRIVE_SCHEMA": world.schema}
    command = [sys.executable, "-m", "tests.journeys.idempotent", what, str(world.folder / "sign")]
    environment = {**os.environ, **place}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_process_killed_with_a_key_frees_it_and_the_work_is_done_once_more(world: World) -> None:
    app = world.app()
    with started(world, "stuck") as process:
        await until(lambda: world.journal.count("charging") == 1)
        process.kill()
    await app.open()
    lease = await value(parts_of(app).database, "SELECT lease_expires_at FROM redrive.idempotency_keys")

    service = app.idempotent
    duplicates = [service.run(KEY, REQUEST, charge, wait=PATIENCE) for _ in range(20)]
    answers = await asyncio.gather(*duplicates)

    assert answers == [{"charged": 7}] * 20
    dead, alive = world.journal.of("charging")
    assert (dead.process, alive.process) == (process.pid, os.getpid())
    assert alive.at >= lease
    assert world.journal.count("charged") == 1


async def test_duplicates_of_several_processes_are_executed_once(world: World) -> None:
    app = world.app()
    await app.open()
    with ExitStack() as stack:
        processes = [stack.enter_context(started(world, "duplicates")) for _ in range(PROCESSES)]
        await until(lambda: world.journal.count("ready") == PROCESSES)
        (world.folder / "sign").touch()
        outputs = await asyncio.gather(*(asyncio.to_thread(each.communicate) for each in processes))

    for printed, _ in outputs:
        assert json.loads(printed) == [{"charged": 7}] * NUMBER
    assert world.journal.count("charging") == world.journal.count("charged") == 1
