"""Plays a script on a database in memory, thousands of histories a minute."""

from __future__ import annotations

from random import Random

from tests.simulation.clock import ProcessClock
from tests.simulation.commit_watch import CommitWatch
from tests.simulation.history import History
from tests.simulation.loop import VirtualLoop
from tests.simulation.script import Script
from tests.simulation.seed import script_of
from tests.simulation.stage import Stage
from tests.simulation.watcher import Finding
from tests.simulation.world import World

from redrive.store.sqlite import SqliteDatabase
from redrive.store.sqlite_session import MEMORY


def simulate(seed: int) -> History:
    return play(script_of(seed))


def play(script: Script) -> History:
    loop = VirtualLoop(Random(f"schedule {script.schedule}"))
    stage = Stage(script, loop)
    try:
        return loop.run_until_complete(_in_memory(stage))
    except Exception as error:
        return History(script, stage.trace, stage.occurrences, [Finding("error", "simulation", repr(error))])
    finally:
        loop.close()


async def _in_memory(stage: Stage) -> History:
    database = SqliteDatabase(MEMORY, clock=ProcessClock(stage.loop))
    await database.migrate()
    try:
        return await World(stage, database, CommitWatch(stage, database)).play()
    finally:
        await database.close()
