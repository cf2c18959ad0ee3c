"""Automatic redrives on both databases: no duplicates, the most urgent first, exact counts (M3, M7, M10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.failures.redrive_processor import Processor, ProcessorOptions
from redrive.model.statistics import LifetimeStats
from redrive.parts import parts_of, rewire
from redrive.settings import Settings
from redrive.store.automatic_redrive import Due, Redrives
from redrive.store.database import Database
from redrive.store.statement import SqlQuery, Statement


class Shop:
    """An application on the database, with a task that fails while `broken` is set."""

    def __init__(self, database: Database) -> None:
        self.broken = True
        self.seen: list[Any] = []
        self.app = Redrive("sqlite://:memory:", settings=Settings(dlq_processor_enabled=False), log=False)
        rewire(self.app, database, SYSTEM_CLOCK, Random(0))
        self.task = self.app.task(name="sell", max_attempts=1, redrive="immediate", max_redrives=2)(self.sell)

    async def sell(self, payload: int) -> None:
        self.seen.append(payload)
        if self.broken:
            raise ConnectionResetError("cut")

    async def work_off(self) -> None:
        await parts_of(self.app).worker_in_test().work_off()

    async def fail(self, *payloads: int, **options: Any) -> None:
        await self.app.start_many(self.task, payloads, **options)
        await self.work_off()

    def processor(self, **options: Any) -> Processor:
        app = self.app
        parts = (
            parts_of(app).store,
            parts_of(app).breakers,
            parts_of(app).clock,
            parts_of(app).event_bus,
            parts_of(app).ids,
            parts_of(app).retrier,
        )
        return Processor(*parts, ProcessorOptions(**options))


@pytest.fixture
def shop(database: Database) -> Shop:
    return Shop(database)


@pytest.fixture
def redrives(database: Database) -> Redrives:
    return Redrives(database)


async def by_hand(database: Database, text: str) -> list[Any]:
    queries = (SqlQuery("by hand", text.replace("redrive.", ""), ()), SqlQuery("by hand", text, ()))
    return list(await database.fetch(Statement(*queries), {}))


async def due(redrives: Redrives, **options: Any) -> list[Due]:
    return await redrives.due(100, **{"queue": None, "open_breakers": (), "known": (), **options})


async def test_processors_that_run_at_once_redrive_nothing_twice(shop: Shop, database: Database) -> None:
    await shop.fail(*range(60))
    shop.seen.clear()
    passes = await asyncio.gather(*(shop.processor().run_once() for _ in range(4)))
    assert sum(each.redriven for each in passes) == 60
    await shop.work_off()
    assert Counter(shop.seen) == Counter(range(60))
    [[replays]] = await by_hand(database, "SELECT count(*) FROM redrive.replays WHERE state = 'FAILED'")
    assert replays == 60


async def test_rows_locked_by_another_process_are_left_to_it(shop: Shop, redrives: Redrives) -> None:
    await shop.fail(1)
    [letter] = await due(redrives)
    async with parts_of(shop.app).database.transaction() as session:
        assert await redrives.lock_due(session, [letter]) == [letter]
    await shop.processor().run_once()
    async with parts_of(shop.app).database.transaction() as session:
        assert await redrives.lock_due(session, [letter]) == []


async def test_priority_then_age(shop: Shop, redrives: Redrives, database: Database) -> None:
    for payload, priority in enumerate([0, 7, 0, 7]):
        await shop.fail(payload, priority=priority)
    inputs = {row[0]: int(row[1]) for row in await by_hand(database, "SELECT id, input FROM redrive.runs")}
    assert [inputs[each.run_id] for each in await due(redrives)] == [1, 3, 0, 2]
    assert [inputs[each.run_id] for each in (await due(redrives))[:1]] == [1]


async def test_letters_that_are_not_redriven(shop: Shop, redrives: Redrives, database: Database) -> None:
    await shop.fail(1)
    assert len(await due(redrives)) == 1
    assert len(await due(redrives, queue="default")) == 1
    assert await due(redrives, queue="other") == []
    await by_hand(database, "UPDATE redrive.dead_letters SET breaker = 'bank'")
    assert await due(redrives, open_breakers=["bank", "mail"]) == []
    assert len(await due(redrives, open_breakers=["mail"])) == 1
    await by_hand(database, "UPDATE redrive.dead_letters SET redrive = 'custom:own'")
    assert await due(redrives, known=["custom:other"]) == []
    assert len(await due(redrives, known=["custom:own", "custom:other"])) == 1


async def test_the_figures_follow_every_change(shop: Shop, redrives: Redrives) -> None:
    """M7."""
    await shop.fail(1, 2, 3)
    await shop.fail(4, org="other")
    processor = shop.processor()
    await processor.run_once()
    await shop.work_off()
    shop.broken = False
    await processor.run_once()
    await shop.work_off()
    census = await redrives.census()
    assert set(census) == {"default", "other"}
    assert census["default"].states == {"RESOLVED": 3}
    assert census["default"].lifetime == LifetimeStats(enqueued_total=3, retry_success=3, retry_failed=3)
    assert (census["default"].live, census["default"].categories) == (0, Counter())
    assert set(await redrives.census(org="other")) == {"other"}
    assert await redrives.census(queue="nowhere") == {}


async def test_live_letters_by_category_and_policy(shop: Shop, redrives: Redrives) -> None:
    await shop.fail(1, 2)
    census = (await redrives.census(queue="default"))["default"]
    assert (census.live, census.states) == (2, {"OPEN": 2})
    assert (census.categories, census.policies) == ({"network": 2}, {"immediate": 2})


async def test_letters_exhausted_for_long_are_archived(shop: Shop, database: Database) -> None:
    """M10."""
    await shop.fail(1, 2)
    processor = shop.processor()
    for _ in range(2):
        await processor.run_once()
        await shop.work_off()
    assert (await processor.run_once()).archived == 0
    change = "UPDATE redrive.dead_letters SET exhausted_at = exhausted_at - 700000 WHERE payload = '1'"
    await by_hand(database, change)
    assert (await processor.run_once()).archived == 1
    states = await by_hand(database, "SELECT payload, state FROM redrive.dead_letters ORDER BY payload")
    assert [tuple(row) for row in states] == [("1", "ARCHIVED"), ("2", "EXHAUSTED")]
    [[entries]] = await by_hand(
        database, "SELECT count(*) FROM redrive.audit WHERE action = 'dead_letter.archived'"
    )
    assert entries == 1


async def test_heartbeats(redrives: Redrives) -> None:
    await redrives.heartbeat("one", "", "running", 60.0, 0)
    await redrives.heartbeat("two", "dlq:mail", "running", 10.0, 5)
    await redrives.heartbeat("one", "", "stopped", 60.0, 7)
    found = {row.id: (row.queue, row.state, row.redriven, row.running) for row in await redrives.processors()}
    assert found == {"one": ("", "stopped", 7, False), "two": ("dlq:mail", "running", 5, True)}
    await redrives.forget_processors(3600.0)
    assert len(await redrives.processors()) == 2
    await redrives.forget_processors(-1.0)
    assert await redrives.processors() == []
