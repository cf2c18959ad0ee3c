"""Failed runs are dead-lettered, reported again or cleared one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.guards.test_replays import reported
from tests.store.build import (
    ORG,
    ask,
    claimed,
    column,
    completed,
    enqueued,
    holder,
    stopped,
    tables,
    value,
)
from tests.store.letters import letter, put

from redrive.model.claim import Claim
from redrive.model.failed_task import NewFailedTask
from redrive.store.database import Database
from redrive.store.external_failures import EnqueuedTask, ExternalFailures
from redrive.store.limits import Limits
from redrive.store.record import Record
from redrive.store.store import Store

QUEUE = "dlq:mail"


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


# Failed runs


async def succeeded(store: Store) -> tuple[str, str]:
    claim = await claimed(store)
    assert await store.records.record([Record(completed(claim))])
    return claim.id, ORG


async def of_another_org(store: Store) -> tuple[str, str]:
    return await failed(store), "another"


async def another(store: Store) -> tuple[str, str]:
    await failed(store)
    return "another", ORG


async def failed(store: Store) -> str:
    claim = await claimed(store)
    assert await store.records.record([Record(stopped(claim, state="FAILED", step_state="FAILED"))])
    return claim.id


NOT_FAILED: dict[str, Callable[[Store], Awaitable[tuple[str, str]]]] = {
    "state": succeeded,
    "org": of_another_org,
    "id": another,
}


@pytest.mark.parametrize("part", NOT_FAILED)
async def test_only_a_failed_run_of_the_org_is_taken_up_i8_i10(store: Store, part: str) -> None:
    run_id, org = await NOT_FAILED[part](store)

    async with store.database.transaction() as session:
        assert await store.leases.failed(session, run_id, org) is None


# Tasks from other systems


async def report(database: Database, new: NewFailedTask, token: int = 1) -> EnqueuedTask:
    async with database.transaction() as session:
        return await ExternalFailures(session, Limits(session)).take(session, new._replace(token=token), 100)


async def buried(database: Database, name: str) -> Claim:
    """A task that was reported once, with its dead letter."""
    taken = await report(database, reported(name))
    assert taken.claim is not None
    assert await Store(database).records.record([Record(stopped(taken.claim))])
    await put(database, [letter(id=f"letter {name}", run_id=name, queue=QUEUE)])
    return taken.claim


async def test_a_task_that_is_reported_again_is_taken_again(store: Store, database: Database) -> None:
    await buried(database, "first")
    other = await buried(database, "second")
    whole = "SELECT * FROM redrive.runs WHERE id = :id"
    before = await ask(database, whole, id=other.id)

    again = await report(database, reported("first")._replace(metadata='"new"', priority=2), token=2)

    assert again.letter_id == "letter first"
    assert again.claim is not None
    assert (again.claim.id, again.claim.token, again.claim.epoch, again.claim.attempt) == ("first", 2, 2, 2)
    assert (again.claim.input, again.claim.metadata) == ("{}", '"new"')
    assert (again.claim.replays, again.claim.has_letter) == (1, True)
    place, priority, submitted_at, sort_key = await column(
        database, "first", "place", "priority", "submitted_at", "sort_key"
    )
    assert (place, priority, sort_key) == ("leased", 2, submitted_at - 2 * 3600.0)
    assert await ask(database, whole, id=other.id) == before


async def replayed(store: Store) -> None:
    """Put the run of the dead letter back in line for execution."""
    await ask(store.database, "UPDATE redrive.dead_letters SET state = 'REPLAYING'")
    await ask(store.database, "UPDATE redrive.runs SET place = 'ready', state = 'RUNNING', ended_at = NULL")


async def test_a_task_that_is_being_replayed_is_not_taken_again_i4(store: Store, database: Database) -> None:
    await buried(database, "first")
    await replayed(store)
    before = await tables(database)

    assert await report(database, reported("first"), token=2) == (None, "letter first", "first")

    after = await tables(database)
    assert {name: rows for name, rows in after.items() if name != "limits"} == {
        name: rows for name, rows in before.items() if name != "limits"
    }


async def clear(database: Database) -> int:
    async with database.transaction() as session:
        return await ExternalFailures(session, Limits(session)).clear(session, ORG, QUEUE, 100)


async def test_a_letter_that_is_being_replayed_is_not_cleared_i1(store: Store, database: Database) -> None:
    await buried(database, "first")
    await replayed(store)

    assert await clear(database) == 0

    assert len(await store.runs.all()) == 1


async def test_clearing_a_queue_does_not_change_other_runs(store: Store, database: Database) -> None:
    await buried(database, "first")
    await enqueued(store)
    [other] = await store.leases.claim("default", 1, holder())
    before = await ask(database, "SELECT * FROM redrive.runs WHERE id = :id", id=other.id)

    assert await clear(database) == 1

    assert await ask(database, "SELECT * FROM redrive.runs") == before
    assert await value(database, "SELECT count(*) FROM redrive.dead_letters") == 0
