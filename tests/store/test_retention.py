"""Deleting old rows: finished runs with everything that belongs to them, but never a live dead letter."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.build import (
    EXPIRED,
    ask,
    attempts_of,
    buried,
    claimed,
    completed,
    enqueued,
    full,
    holder,
    parked,
    rescheduled,
    stopped,
    tables,
    value,
)

from redrive.model.claim import Claim
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Record
from redrive.store.store import Store

DAY = 86_400.0
OF_A_RUN = ("runs", "attempts", "steps", "run_events", "dead_letters")


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def ended(store: Store, age: float = 0.0) -> Claim:
    """Create a finished run with rows in every table, and a closed dead letter."""
    claim = await claimed(store)
    await store.records.record([full(stopped(claim), claim)])
    await ask(
        store.database, "UPDATE redrive.dead_letters SET state = 'RESOLVED' WHERE run_id = :id", id=claim.id
    )
    for text in (
        "UPDATE redrive.runs SET ended_at = :now - :age WHERE id = :id",
        "UPDATE redrive.dead_letters SET updated_at = :now - :age WHERE run_id = :id",
    ):
        await ask(store.database, text, id=claim.id, age=age)
    return claim


async def counts(database: Database) -> list[int]:
    return [len(rows) for table, rows in (await tables(database)).items() if table in OF_A_RUN]


async def test_old_runs_go_with_everything_that_belongs_to_them(store: Store, database: Database) -> None:
    old, new = await ended(store, 2 * DAY), await ended(store, DAY / 2)
    assert await counts(database) == [2] * len(OF_A_RUN)

    assert await store.runs.remove_expired(DAY, 10) == 1

    assert await counts(database) == [1] * len(OF_A_RUN)
    if isinstance(database, PostgresDatabase):  # the input of a run has its own row there
        assert await ask(database, "SELECT id FROM redrive.run_inputs") == [(new.id,)]
    assert [run.id for run in await store.runs.all()] == [new.id]
    assert await attempts_of(store, old.id) == []
    assert len(await attempts_of(store, new.id)) == 1
    assert await store.runs.remove_expired(DAY, 10) == 0


@pytest.mark.parametrize("state", ["OPEN", "REPLAYING", "EXHAUSTED", "ARCHIVED"])
async def test_unfinished_work_is_kept_forever_i1(store: Store, database: Database, state: str) -> None:
    claim = await claimed(store)
    await buried(store, claim)
    await ask(database, "UPDATE redrive.dead_letters SET state = :state, updated_at = 1.0", state=state)
    await ask(database, "UPDATE redrive.runs SET ended_at = 1.0")
    before = await tables(database)

    assert await store.runs.remove_expired(DAY, 10) == 0

    assert await tables(database) == before


async def test_one_live_dead_letter_of_several_is_enough_i1(store: Store, database: Database) -> None:
    claim = await ended(store, 2 * DAY)
    await ask(database, "UPDATE redrive.runs SET place = 'ready'")
    [again] = await store.leases.claim("default", 1, holder())
    await buried(store, again)
    await ask(database, "UPDATE redrive.runs SET ended_at = 1.0")
    assert claim.id == again.id

    assert await store.runs.remove_expired(DAY, 10) == 0
    await ask(database, "UPDATE redrive.dead_letters SET state = 'IGNORED', updated_at = 1.0")
    assert await store.runs.remove_expired(DAY, 10) == 1
    assert await counts(database) == [0] * len(OF_A_RUN)


async def test_runs_that_have_not_ended_are_kept(store: Store, database: Database) -> None:
    await enqueued(store, 4)
    claims = await store.leases.claim("default", 3, holder())
    await store.records.record([Record(rescheduled(claims[0])), Record(parked(claims[1]))])
    await ask(database, "UPDATE redrive.runs SET submitted_at = 1.0, started_at = 1.0")
    before = await tables(database)

    assert await store.runs.remove_expired(EXPIRED, 10) == 0

    assert await tables(database) == before


async def test_batches_are_bounded_and_take_the_oldest_first(store: Store) -> None:
    claims = [await ended(store, age) for age in (3 * DAY, 5 * DAY, 2 * DAY, 4 * DAY)]

    assert await store.runs.remove_expired(DAY, 3) == 3

    assert [run.id for run in await store.runs.all()] == [claims[2].id]
    assert await store.runs.remove_expired(DAY, 3) == 1


async def test_live_dead_letters_do_not_use_up_the_batch(store: Store, database: Database) -> None:
    for _ in range(3):
        await buried(store, await claimed(store))
    await ask(database, "UPDATE redrive.runs SET ended_at = 1.0")
    await ended(store, 2 * DAY)

    assert await store.runs.remove_expired(DAY, 2) == 1


async def test_the_key_of_a_removed_run_is_free_again(store: Store) -> None:
    claim = await claimed(store, idempotency_key="key", request_hash="hash")
    await store.records.record([Record(completed(claim))])
    await store.runs.remove_expired(EXPIRED, 10)

    [run_id] = await enqueued(store, idempotency_key="key", request_hash="other")

    assert run_id != claim.id


async def test_two_at_once_remove_each_run_once(store: Store, database: Database) -> None:
    others = [Store(database.another()) for _ in range(3)]
    for _ in range(6):
        await ended(store, 2 * DAY)

    removed = await asyncio.gather(*[other.runs.remove_expired(DAY, 10) for other in others])

    assert sum(removed) == 6
    assert await counts(database) == [0] * len(OF_A_RUN)
    for other in others:
        await other.close()


async def test_a_run_that_is_replayed_at_that_moment_keeps_its_history_i1(
    store: Store, database: Database
) -> None:
    claim = await ended(store, 2 * DAY)
    other = Store(database.another())
    async with database.transaction() as session:
        await ask(
            session, "UPDATE redrive.runs SET place = 'ready', state = 'RUNNING' WHERE id = :id", id=claim.id
        )
        removing = asyncio.create_task(other.runs.remove_expired(DAY, 10))
        await asyncio.wait({removing}, timeout=0.1)

    assert await removing == 0

    assert await counts(database) == [1] * len(OF_A_RUN)
    await other.close()


async def test_a_dead_letter_that_is_reopened_in_that_moment_is_kept_i1(
    store: Store, database: Database
) -> None:
    claim = await ended(store, 2 * DAY)
    other = Store(database.another())
    async with database.transaction() as session:
        # Reopening a dead letter locks its run first.
        await ask(session, "UPDATE redrive.runs SET progress = NULL WHERE id = :id", id=claim.id)
        await ask(session, "UPDATE redrive.dead_letters SET state = 'OPEN' WHERE run_id = :id", id=claim.id)
        removing = asyncio.create_task(other.runs.remove_expired(DAY, 10))
        await asyncio.wait({removing}, timeout=0.1)

    assert await removing == 0

    assert await value(database, "SELECT count(*) FROM redrive.dead_letters WHERE state = 'OPEN'") == 1
    assert len(await store.runs.all()) == 1
    await other.close()


REPLAY = """INSERT INTO redrive.replays (id, org, operation_id, position, letter_id, run_id, step_index,
    from_step, mode, state, automatic, requested_by, requested_at, reason, fingerprint, letter_updated_at,
    effect)
VALUES (:letter, 'acme', {operation}, 1, :letter, :run, 0,
    0, 'FROM_STEP', 'SUCCEEDED', 0, 'ana', 1, '', 'f', 1, 'none')
"""
OPERATION = """INSERT INTO redrive.replay_operations (id, org, state, mode, selection, options, reason, plan,
    planned_by, planned_at, released, updated_at)
VALUES (:id, 'acme', :id, 'FROM_STEP', '{}', '{}', '', '{}', 'ana', 1, 0, 1)
"""


async def test_notes_and_replays_of_a_letter_are_deleted_with_its_run(
    store: Store, database: Database
) -> None:
    old = await ended(store, 2 * DAY)
    [[letter]] = await ask(database, "SELECT id FROM redrive.dead_letters WHERE run_id = :id", id=old.id)
    for text in (
        "INSERT INTO redrive.dead_letter_notes VALUES ('n', 'acme', :letter, 1, 'ana', 'hm')",
        "INSERT INTO redrive.dead_letter_dependencies VALUES (:letter, 'other', 'acme')",
        REPLAY.format(operation="NULL"),
    ):
        await ask(database, text, letter=letter, run=old.id)
    await store.runs.remove_expired(DAY, 100)
    left = await tables(database)
    assert [len(left[table]) for table in ("dead_letter_notes", "dead_letter_dependencies", "replays")] == [
        0
    ] * 3


async def test_old_operations_go_with_their_items_unless_they_are_in_progress(
    store: Store, database: Database
) -> None:
    for state in ("PLANNED", "RUNNING", "PAUSED", "STOPPED", "DONE", "CANCELLED"):
        await ask(database, OPERATION, id=state)
        await ask(database, REPLAY.format(operation=f"'{state}'"), letter=state, run=state)
    for _ in range(4):
        await store.runs.remove_expired(DAY, 100)
    for table in ("replay_operations", "replays"):
        left = await ask(database, f"SELECT id FROM redrive.{table} ORDER BY id")
        assert [row[0] for row in left] == ["PAUSED", "RUNNING", "STOPPED"]


async def test_a_run_whose_letter_is_long_closed_is_kept_for_its_own_time(
    store: Store, database: Database
) -> None:
    """A replay resolved the letter of an early step long ago, and the run has continued since."""
    old = await ended(store, 2 * DAY)
    await ask(database, "UPDATE redrive.runs SET ended_at = :now - 60 WHERE id = :id", id=old.id)
    assert await store.runs.remove_expired(DAY, 10) == 0
    await ask(database, "UPDATE redrive.runs SET ended_at = :now - 100000 WHERE id = :id", id=old.id)
    assert await store.runs.remove_expired(DAY, 10) == 1


async def test_a_dependency_of_a_live_letter_is_kept(store: Store, database: Database) -> None:
    old, waiting = await ended(store, 2 * DAY), await claimed(store)
    await buried(store, waiting)
    text = """INSERT INTO redrive.dead_letter_dependencies (letter_id, depends_on, org)
    SELECT waiting.id, other.id, 'acme' FROM redrive.dead_letters AS waiting, redrive.dead_letters AS other
    WHERE waiting.run_id = :waiting AND other.run_id = :old"""
    await ask(database, text, waiting=waiting.id, old=old.id)
    assert await store.runs.remove_expired(DAY, 10) == 0
