"""Counters of dead letters, which the database maintains, and the limit of a queue (I16, M6)."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.build import ask, claimed, dead_letter_row, stopped

from redrive.model.claim import Claim
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Record
from redrive.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def bury(store: Store, number: int, fingerprint: str = "f") -> list[str]:
    return await record(store, [await claimed(store) for _ in range(number)], fingerprint)


async def record(store: Store, claims: list[Claim], fingerprint: str = "f") -> list[str]:
    """Record failed runs and return their places."""
    letters = [dead_letter_row(claim, fingerprint=fingerprint) for claim in claims]
    records = [
        Record(stopped(claim), dead_letter=letter) for claim, letter in zip(claims, letters, strict=True)
    ]
    recorded = (await store.records.record(records)).values()
    return sorted(each.place for each in recorded)


async def counted(database: Database) -> dict[tuple[str, str], int]:
    text = """SELECT fingerprint, state, CAST(sum(number) AS bigint) FROM redrive.dead_letter_counts
    GROUP BY fingerprint, state HAVING sum(number) <> 0"""
    return {(row[0], row[1]): row[2] for row in await ask(database, text)}


async def test_counters_follow_every_change_of_a_letter_i16(store: Store, database: Database) -> None:
    await bury(store, 3, "a")
    await bury(store, 2, "b")
    assert await counted(database) == {("a", "OPEN"): 3, ("b", "OPEN"): 2}
    await ask(database, "UPDATE redrive.dead_letters SET state = 'IGNORED' WHERE fingerprint = 'a'")
    await ask(database, "UPDATE redrive.dead_letters SET fingerprint = 'c' WHERE fingerprint = 'b'")
    assert await counted(database) == {("a", "IGNORED"): 3, ("c", "OPEN"): 2}
    await ask(database, "DELETE FROM redrive.dead_letters WHERE fingerprint = 'c'")
    assert await counted(database) == {("a", "IGNORED"): 3}


async def test_one_statement_counts_letters_that_change_in_different_ways(
    store: Store, database: Database
) -> None:
    await bury(store, 2, "a")
    await bury(store, 3, "b")
    await bury(store, 1, "c")
    await ask(database, "UPDATE redrive.dead_letters SET state = 'REPLAYING' WHERE fingerprint <> 'c'")
    await ask(
        database,
        """UPDATE redrive.dead_letters SET
            state = CASE fingerprint WHEN 'a' THEN 'RESOLVED' WHEN 'b' THEN 'EXHAUSTED' ELSE state END,
            resolution = CASE fingerprint WHEN 'a' THEN 'replayed' END,
            next_redrive_at = CASE fingerprint WHEN 'c' THEN 5.0 END""",
    )
    assert await counted(database) == {("a", "RESOLVED"): 2, ("b", "EXHAUSTED"): 3, ("c", "OPEN"): 1}
    figures = await ask(
        database,
        "SELECT figure, CAST(sum(number) AS bigint) FROM redrive.dead_letter_figures"
        " GROUP BY figure ORDER BY figure",
    )
    assert dict(figures) == {
        "enqueued_total": 6,
        "exhausted": 3,
        "manually_retried": 5,
        "retry_failed": 3,
        "retry_success": 2,
    }
    tallies = await ask(
        database,
        "SELECT figure, subject, CAST(sum(number) AS bigint) FROM redrive.tallies"
        " WHERE figure NOT IN ('came', 'occurred', 'ended') GROUP BY figure, subject"
        " HAVING sum(number) <> 0 ORDER BY figure, subject",
    )
    assert tallies == [
        ("left", "", 2),
        ("replay_failed", "", 3),
        ("replayed", "", 2),
        ("standing", "EXHAUSTED", 3),
        ("standing", "SCHEDULED", 1),
    ]


async def test_the_plan_for_one_letter_is_not_used_for_a_batch(postgres_database: PostgresDatabase) -> None:
    """A session keeps the plan of its first update; nested loops would compare all rows of a batch."""
    [[settings]] = await ask(
        postgres_database,
        "SELECT proconfig FROM pg_catalog.pg_proc JOIN pg_catalog.pg_trigger ON tgfoid = pg_proc.oid"
        " WHERE tgrelid = CAST('redrive.dead_letters' AS regclass) AND tgname = 'dead_letters_updated'",
    )
    assert settings == ["enable_nestloop=off"]


async def test_summing_up_changes_no_sum_and_leaves_one_row_a_key(store: Store, database: Database) -> None:
    for _ in range(5):
        await bury(store, 1, "a")
    await ask(database, "UPDATE redrive.dead_letters SET state = 'RESOLVED'")
    before = await counted(database)
    await asyncio.gather(*(store.letter_writer.sum_up() for _ in range(4)))
    await store.letter_writer.sum_up()
    assert await counted(database) == before == {("a", "RESOLVED"): 5}
    assert len(await ask(database, "SELECT 1 FROM redrive.dead_letter_counts")) == 1


async def test_summing_up_while_others_write_letters_loses_no_count(store: Store, database: Database) -> None:
    async def tidy() -> None:
        for _ in range(10):
            await store.letter_writer.sum_up()

    batches = [[await claimed(store) for _ in range(3)] for _ in range(10)]
    await asyncio.gather(*(record(store, batch, "a") for batch in batches), tidy(), tidy())
    await store.letter_writer.sum_up()
    assert await counted(database) == {("a", "OPEN"): 30}
