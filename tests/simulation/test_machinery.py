"""The simulation itself: it is repeatable, its processes die and freeze like real ones, and it can fail."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.guards.switch import switched_off
from tests.simulation import find_violation
from tests.simulation.campaign import Campaign
from tests.simulation.clock import ProcessClock
from tests.simulation.coverage import BITING, ENOUGH, ENOUGH_FOR_RARE, RARE, missing
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.script import Fault, FaultKind, RunPlan, Script, StepPlan, TaskPlan, Trouble, WorkerPlan
from tests.simulation.seam import Seam
from tests.simulation.seed import script_of
from tests.simulation.shrink import shrunk
from tests.simulation.simulate import play, simulate
from tests.simulation.stage import Stage
from tests.simulation.watcher import Blind

from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_session import MEMORY
from redrive.store.statement import SqlQuery, Statement, statement

ROOT = Path(__file__).parents[2]
SEEDS = (3, 7, 41, 54)


def run(work: Coroutine[Any, Any, Any], loop: VirtualLoop) -> Any:
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(Random(0))


# Determinism


def test_a_seed_always_gives_the_same_history() -> None:
    for seed in SEEDS:
        first, second = simulate(seed), simulate(seed)
        assert first.trace == second.trace
        assert first.endings == second.endings


def test_seeds_give_different_histories() -> None:
    assert len({simulate(seed).transcript() for seed in SEEDS}) == len(SEEDS)


def test_another_python_process_gives_the_same_history() -> None:
    program = (
        "from hashlib import sha256; from tests.simulation.simulate import simulate; "
        f"print([sha256(simulate(seed).transcript().encode()).hexdigest() for seed in {SEEDS}])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1


# Processes


def test_time_jumps(loop: VirtualLoop) -> None:
    async def work() -> float:
        await asyncio.sleep(3600.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100.0), 10.0)
        return loop.time()

    assert run(work(), loop) == 3610.0


def test_a_crashed_process_never_runs_again(loop: VirtualLoop) -> None:
    process, seen = Process("victim"), []

    async def victim() -> None:
        try:
            await asyncio.create_task(asyncio.sleep(1.0))
            seen.append("begun")
            await asyncio.sleep(10.0)
        finally:
            seen.append("ended")

    async def work() -> list[str]:
        task = loop.start(process, victim())
        await asyncio.sleep(5.0)
        loop.crash(process)
        await asyncio.sleep(100.0)
        before = list(seen)
        loop.revive(process)
        task.cancel()
        await asyncio.wait({task})
        return before

    assert run(work(), loop) == ["begun"]


def test_a_frozen_process_continues_later(loop: VirtualLoop) -> None:
    process = Process("sleeper")

    async def sleeper() -> float:
        await asyncio.sleep(1.0)
        return loop.time()

    async def work() -> Any:
        task = loop.start(process, sleeper())
        await asyncio.sleep(0.5)
        loop.freeze(process)
        loop.call_later(29.5, loop.thaw, process)
        return await task

    assert run(work(), loop) == 30.0


# The database


COUNT = SqlQuery("count", "SELECT count(*) FROM queues", ())
PAUSE = statement("limits", "pause")
QUEUE = {"name": "mail", "by": "somebody", "reason": ""}


async def paused_by(loop: VirtualLoop, fault: Fault) -> tuple[Stage, Process, int]:
    """Return the table's content after a process with this fault has paused a queue in a transaction."""
    database = SqliteDatabase(MEMORY, clock=ProcessClock(loop))
    await database.migrate()
    stage = Stage(replace(script_of(0), faults=()), loop)
    process = Process("w0")
    seam = Seam(stage, process, "w0", database, Blind(stage))
    stage.arm(fault)

    async def pause() -> None:
        async with seam.transaction() as session:
            await session.fetch(PAUSE, QUEUE)

    task = loop.start(process, pause())
    await asyncio.wait({task}, timeout=10.0)
    other = Seam(stage, Process("other"), "other", database, Blind(stage))
    [[count]] = await asyncio.wait_for(other.fetch(Statement(COUNT, COUNT), {}), 10.0)
    loop.revive(process)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return stage, process, count


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (FaultKind.CRASH_INSIDE, 0),
        (FaultKind.FAIL_INSIDE, 0),
        (FaultKind.LOSE_ANSWER, 1),
        (FaultKind.CRASH_AFTER, 1),
    ],
)
def test_the_database_after_a_fault(loop: VirtualLoop, kind: FaultKind, written: int) -> None:
    stage, _, count = run(paused_by(loop, Fault(0.0, kind, "w0", statement="pause")), loop)
    assert count == written
    assert sum(stage.occurrences.values()) >= 1


# It can fail


def test_a_fault_that_never_happened_is_reported() -> None:
    occurrences = Counter(dict.fromkeys((*BITING, *RARE), 1))
    assert not missing(occurrences, 1000)
    assert missing(occurrences - Counter({"reclaim": 1}), ENOUGH) == ["reclaim"]
    assert missing(occurrences - Counter({"operation paused": 1}), ENOUGH_FOR_RARE) == ["operation paused"]
    assert Campaign(histories=ENOUGH, occurrences=Counter()).vacuous == list(BITING)
    assert Campaign(histories=ENOUGH_FOR_RARE, occurrences=Counter()).vacuous == [*BITING, *RARE]
    assert not Campaign(histories=ENOUGH - 1, occurrences=Counter()).vacuous


def duel(seed: int) -> Script:
    """One worker freezes within a step; another takes it over, and is not done when the first resumes."""
    workers = tuple(WorkerPlan(name, ("default",), 3, 4.0, 3.0, 1.0, 0.0) for name in ("w0", "w1"))
    step = StepPlan((), (Trouble.SLEEP,))
    runs = tuple(RunPlan(number, "slow", (step,), at=0.2 * number) for number in range(4))
    freeze = Fault(0.5, FaultKind.FREEZE, "w0", 7.0)
    late = Fault(0.0, FaultKind.LATE_ANSWER, "w1", 3.5, "reclaim")
    others = (Fault(13.0, FaultKind.OUTAGE, "", 0.1), Fault(12.0, FaultKind.SLOW, "w1", 0.5))
    task = TaskPlan("slow", timeout=60.0)
    return Script(seed, workers, (task,), (), runs, (freeze, late, *others))


def test_a_missing_guard_is_found_and_its_script_shrunk() -> None:
    scripts = [duel(seed) for seed in range(20)]
    assert not any(play(script).findings for script in scripts)
    with switched_off("complete.token"):
        script = next(each for each in scripts if "I4" in play(each).invariants)
        small = shrunk(script, {"I4"})
        assert "I4" in play(small).invariants
    assert len(small.runs) < len(script.runs)
    assert len(small.faults) < len(script.faults)
    assert not play(small).findings


def test_a_violation_says_how_to_see_it_again() -> None:
    with switched_off("reclaim.expiry"):
        violation = find_violation(range(20))
    assert violation is not None
    assert violation.history.invariants == {"I4"}
    assert f"python -m tests.simulation --seed {violation.seed}" in str(violation)
    assert find_violation([violation.seed]) is None
