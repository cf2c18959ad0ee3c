"""A bulk replay survives its workers, starts no replay twice, and rests while it is paused."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from tests.journeys.journal import note
from tests.journeys.world import PATIENCE, WorkerProcess, World, until
from tests.store.build import ask

from redrive import Context, FinalError, Redrive
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.failures.service import Failures
from redrive.parts import parts_of
from redrive.verify import Witness, verify

MANY = {"sqlite": 2_000, "postgres": 10_000}
"""Dead letters of a bulk replay; 10,000 on SQLite too with REDRIVE_TEST_EXPLORE."""

WORKERS = 2
KILLS = 6


def mill(app: Redrive) -> None:
    """A task that succeeds while there is flour: a file."""

    @app.task(max_attempts=1)
    async def grind(flour: str, context: Context) -> None:
        if not Path(flour).exists():
            raise FinalError("no flour")
        note("ground", run=context.run_id, key=context.idempotency_key, attempt=context.attempt)


class Mill:
    """An application in the process of the test, and its database."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.app = world.app(mill)
        self.flour = world.folder / "flour"

    async def failed(self, number: int) -> Failures:
        """Create dead letters, and repair their task."""
        async with self.world.working(self.app, concurrency=400):
            await self.app.start_many("grind", [str(self.flour)] * number)
            await until(lambda: self._has_buried(number))
        self.flour.touch()
        return self.app.failures(by="ana")

    async def _has_buried(self, number: int) -> bool:
        return await parts_of(self.app).store.runs.count_by_state(DEFAULT_ORG) == {"DLQ_PENDING": number}

    def has_ground(self, number: int) -> bool:
        """Tell whether the journal has this many entries; it only counts lines, because there are many."""
        path = self.world.journal.path
        return path.exists() and path.read_bytes().count(b"\n") >= number

    async def check_everything(self, number: int) -> None:
        """Check that each letter was replayed once and had its effect; a death explains every repetition."""
        effects = self.world.journal.of("ground")
        assert len({(each["key"], each["attempt"]) for each in effects}) == len(effects)
        per_run = Counter(each["run"] for each in effects)
        lost = Counter(await self._rows("SELECT run_id FROM redrive.attempts WHERE replay = 1"))
        assert [run for run, times in per_run.items() if times > 1 + lost[run,]] == []
        replayed = "SELECT replays, state, count(*) FROM redrive.runs GROUP BY replays, state"
        assert await self._rows(replayed) == [(1, "SUCCESS", number)]
        letters = (
            "SELECT replay_count, state, count(*) FROM redrive.dead_letters GROUP BY replay_count, state"
        )
        assert await self._rows(letters) == [(1, "RESOLVED", number)]
        begun = "SELECT state, count(*), count(DISTINCT letter_id) FROM redrive.replays GROUP BY state"
        assert await self._rows(begun) == [("SUCCEEDED", number, number)]
        await self._check_promises(per_run, {each["key"] for each in effects})

    async def _check_promises(self, runs: Counter[str], keys: set[str]) -> None:
        witness = Witness(acknowledged=set(runs), effects=dict.fromkeys(keys, 1))
        verdict = await verify(parts_of(self.app).database, witness=witness, settled=True)
        assert verdict.sound, str(verdict)
        assert all(verdict.checked[each] for each in ("I1", "I2", "I4", "I7", "I16"))
        audit = await self.app.failures().audit.verify()
        assert audit.sound, str(audit)

    async def _rows(self, text: str) -> list[tuple[object, ...]]:
        return await ask(parts_of(self.app).database, text)


@asynccontextmanager
async def crew(world: World, number: int = WORKERS) -> AsyncIterator[list[list[WorkerProcess]]]:
    """Run this many workers, and replace dead ones. Yield the list of each place; its last one is alive."""
    async with world.supervised(mill, concurrency=40, poll_seconds=0.02) as first:
        if number == 1:
            yield [first]
            return
        async with crew(world, number - 1) as others:
            yield [first, *others]


async def items(failures: Failures, operation_id: str) -> dict[str, int]:
    """Return how many items are in each state."""
    found = (await failures.plans.report(operation_id)).items
    return {str(state): number for state, number in found.items() if number}


async def has_state(failures: Failures, operation_id: str, state: str) -> bool:
    return (await failures.plans.view(operation_id)).state == state


def _name_of(world: World) -> str:
    return "postgres" if world.is_postgres else "sqlite"


async def test_every_dead_letter_of_a_bulk_replay_is_replayed_once_although_its_workers_are_killed(
    world: World,
) -> None:
    """W9, W10, I1, I2, I4, I7, I16."""
    number = 10_000 if "REDRIVE_TEST_EXPLORE" in os.environ else MANY[_name_of(world)]
    story = Mill(world)
    failures = await story.failed(number)
    plan = await failures.plans.create(query="is:open", expect=number, reason="flour is back")
    await failures.plans.start(plan.operation_id)

    async with crew(world) as places:
        for kill in range(KILLS):
            await until(partial(story.has_ground, number * (1 + kill) // (KILLS + 2)))
            for place in places if kill == KILLS // 2 else places[kill % WORKERS :][:1]:
                place[-1].kill()
        await until(lambda: has_state(failures, plan.operation_id, "DONE"), within=2 * PATIENCE)

    assert await items(failures, plan.operation_id) == {"SUCCEEDED": number}
    assert (await failures.plans.view(plan.operation_id)).released == number
    await story.check_everything(number)


async def test_a_paused_bulk_replay_rests_through_the_death_of_all_workers_and_continues_where_it_was(
    world: World,
) -> None:
    """W9: work in progress finishes, and nothing else starts until the replay is resumed."""
    story = Mill(world)
    failures = await story.failed(201)
    other, *ids = [line.id for line in (await failures.list(size=201)).lines]
    plan = await failures.plans.create(ids=ids, canary=20, rate=100.0)
    await failures.plans.start(plan.operation_id)
    first = await asyncio.gather(*(world.worker(mill) for _ in range(WORKERS)))
    await until(lambda: story.has_ground(50))

    await failures.plans.pause(plan.operation_id, "a storm")
    for worker in first:
        await world.kill(worker)
    planned = (await items(failures, plan.operation_id))["PLANNED"]
    await asyncio.gather(*(world.worker(mill) for _ in range(WORKERS)))
    later = await failures.plans.create(ids=[other])
    await failures.plans.start(later.operation_id)
    await until(
        lambda: has_state(failures, later.operation_id, "DONE")
    )  # the drivers have started and have polled
    await until(lambda: rests(failures, plan.operation_id))
    assert await has_state(failures, plan.operation_id, "PAUSED")
    assert await items(failures, plan.operation_id) == {"PLANNED": planned, "SUCCEEDED": 200 - planned}

    await failures.plans.resume(plan.operation_id, "it is over")
    await until(lambda: has_state(failures, plan.operation_id, "DONE"))
    await story.check_everything(201)


async def rests(failures: Failures, operation_id: str) -> bool:
    return "RUNNING" not in await items(failures, operation_id)
