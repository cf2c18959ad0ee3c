"""The same scripts on a database in memory, in a real SQLite file and on a real PostgreSQL: the same endings.

Only scripts whose end does not depend on who is faster: see `certain`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.servers import postgresql
from tests.simulation.clock import ProcessClock
from tests.simulation.generate import ORDER_KEYS
from tests.simulation.history import History
from tests.simulation.loop import VirtualLoop
from tests.simulation.postgres import VirtualPostgres, virtual_database
from tests.simulation.script import Fault, FaultKind, RunPlan, Script, Trouble
from tests.simulation.seed import script_of
from tests.simulation.simulate import play
from tests.simulation.stage import Stage
from tests.simulation.watcher import Blind
from tests.simulation.world import World

from redrive.store.database import Database
from redrive.store.sqlite import SqliteDatabase

DATABASES = ("memory", "sqlite", "postgresql")
MAX_DEATHS = 3

_DEADLY = (FaultKind.CRASH, FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.CRASH_INSIDE)
_UNCERTAIN = (FaultKind.FREEZE, FaultKind.FREEZE_AFTER, FaultKind.DEPENDENCY)
_BY_HAND = (FaultKind.FORCE_OPEN, FaultKind.FORCE_CLOSED)

Make = Callable[[ProcessClock], Database]


def certain(script: Script) -> Script:
    """Without what makes the end of a run a matter of time; with all other faults."""
    tasks = tuple(replace(task, breaker=None, unsafe=False, rate_limit_waits=100) for task in script.tasks)
    runs = tuple(replace(run, key=True, cancel_at=None, stranger=False) for run in script.runs)
    # Otherwise the run that was started last would decide which of them wait for a dead letter at the end.
    runs = tuple(replace(run, order_key=ORDER_KEYS[-1]) if run.order_key else run for run in runs)
    runs = tuple(run for run in runs if not _kills(run))
    faults = [fault for fault in script.faults if fault.kind not in (*_UNCERTAIN, *_BY_HAND)]
    return replace(script, tasks=tasks, runs=runs, faults=_with_few_deaths(faults), chores=(), sweeps=1)


def _kills(run: RunPlan) -> bool:
    return any({Trouble.KILL, Trouble.KILL_AFTER_EFFECT} & set(step.troubles) for step in run.steps)


def _with_few_deaths(faults: list[Fault]) -> tuple[Fault, ...]:
    """So few that no step is ever suspected of them."""
    many = [fault for fault in faults if fault.kind in _DEADLY][MAX_DEATHS:]
    return tuple(fault for fault in faults if fault not in many)


def play_on(make: Make, script: Script) -> History:
    """The script on a real database, still on virtual time."""
    loop = VirtualLoop(Random(f"schedule {script.schedule}"))
    try:
        return loop.run_until_complete(_played(make(ProcessClock(loop)), script, loop))
    finally:
        loop.close()


async def _played(database: Database, script: Script, loop: VirtualLoop) -> History:
    loop.outside += 1
    await database.migrate()
    loop.outside -= 1
    stage = Stage(script, loop)
    try:
        return await World(stage, database, Blind(stage)).play()
    finally:
        loop.outside += 1
        await database.close()
        loop.outside -= 1


@contextmanager
def opened(name: str) -> Iterator[Make]:
    """How to make the database of that name."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            numbers = iter(range(10**9))
            yield lambda clock: SqliteDatabase(
                str(Path(folder) / f"{next(numbers)}.db"), clock=clock, durable=False
            )
    else:
        with postgresql() as server, virtual_database(server) as url:
            yield lambda clock: VirtualPostgres(url, clock)


def disagreements(make: Make, seeds: range) -> Iterator[str]:
    for seed in seeds:
        script = certain(script_of(seed))
        here, there = play(script), play_on(make, script)
        for finding in (*here.findings, *there.findings):
            yield f"seed {seed}: {finding}"
        if here.endings != there.endings:
            yield f"seed {seed} ended as {there.endings}, in memory as {here.endings}"


def compare(name: str, seeds: range) -> int:
    with opened(name) as make:
        found = list(disagreements(make, seeds))
    for each in found:
        print(each)
    print(f"{len(seeds)} scripts in memory and on {name}: {len(found)} disagreements")
    return 1 if found else 0
