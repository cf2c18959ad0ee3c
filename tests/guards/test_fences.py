"""Fences without a test elsewhere: a worker writes, takes and releases only what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.engine.workbench import bench, new_app, sql
from tests.store.build import (
    EXPIRED,
    advanced_in_place,
    ask,
    claimed,
    column,
    enqueued,
    holder,
    parked,
    rescheduled,
    tables,
)

from redrive.app import Redrive
from redrive.engine.worker import Worker
from redrive.model.claim import Claim
from redrive.parts import parts_of
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Change, Occupied, Progress, Record
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store
from redrive.testing import Harness

Lose = Callable[[Store, Claim], Awaitable[object]]


async def reclaimed(store: Store, claim: Claim) -> None:
    await ask(store.database, "UPDATE redrive.runs SET leased_until = 1.0")
    assert len(await store.leases.reclaim(999_999, 60.0, 1)) == 1


async def gone_on(store: Store, claim: Claim) -> None:
    assert await store.records.record([Record(advanced_in_place(claim))])


async def given_back(store: Store, claim: Claim) -> None:
    assert await store.records.record([Record(rescheduled(claim))])


LOSSES = [reclaimed, gone_on, given_back]


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def note_slots(store: Store, claim: Claim) -> None:
    async with store.database.transaction() as session:
        await store.records.occupy(session, [Occupied(claim.id, claim.token, claim.epoch, '["mail"]')])


async def note_progress(store: Store, claim: Claim) -> None:
    await store.records.note_progress([Progress(claim.id, claim.token, claim.epoch, "1")])


@pytest.mark.parametrize("note", [note_slots, note_progress])
@pytest.mark.parametrize("lose", LOSSES)
async def test_slots_and_progress_are_noted_under_the_lease_only(
    store: Store, note: Lose, lose: Lose
) -> None:
    claim = await claimed(store)
    await lose(store, claim)
    before = await tables(store.database)

    await note(store, claim)

    assert await tables(store.database) == before


@pytest.mark.parametrize("lose", LOSSES)
async def test_alone_is_started_under_the_lease_only(store: Store, lose: Lose) -> None:
    claim = await claimed(store)
    await lose(store, claim)

    assert not await store.leases.begin_alone(claim)

    assert await column(store.database, claim.id, "isolation") == 0


async def test_one_suspect_at_a_time(store: Store) -> None:
    await enqueued(store, 3)
    claims = await store.leases.claim("default", 3, holder())
    await store.records.record([Record(rescheduled(each, place="alone", isolation=1)) for each in claims])

    assert len(await store.leases.claim_alone("default", holder())) == 1


async def waiting_to_be_taken(store: Store, name: str) -> str:
    """Create a run that this statement would take."""
    if name == "claim":
        return (await enqueued(store))[0]
    claim = await claimed(store, EXPIRED)
    changes: dict[str, Change] = {
        "claim_alone": rescheduled(claim, place="alone", isolation=1),
        "promote": rescheduled(claim, delay=EXPIRED),
        "release": parked(claim),
    }
    if name in changes:
        await store.records.record([Record(changes[name])])
    return claim.id


TAKING: dict[str, Callable[[Store], Awaitable[Sequence[object]]]] = {
    "claim": lambda store: store.leases.claim("default", 10, holder()),
    "claim_alone": lambda store: store.leases.claim_alone("default", holder()),
    "reclaim": lambda store: store.leases.reclaim(999_999, 60.0, 10),
    "promote": lambda store: store.leases.promote(10),
    "release": lambda store: store.limits.release("breaker:mail", 10),
}


@pytest.mark.parametrize("name", TAKING)
async def test_rows_locked_by_another_transaction_are_left_alone(
    postgres_database: PostgresDatabase, name: str
) -> None:
    """The run still looks available. The statement neither waits for the other change nor overwrites it."""
    store, other = Store(postgres_database), Store(postgres_database.another())
    run_id = await waiting_to_be_taken(store, name)
    async with postgres_database.transaction() as session:
        await ask(
            session,
            "UPDATE redrive.runs SET place = 'ended', ended_at = 1.0, due_at = NULL, held_by = NULL, "
            "leased_until = NULL",
        )
        taking = asyncio.ensure_future(TAKING[name](other))
        await asyncio.wait({taking}, timeout=3)
        waited = not taking.done()

    assert list(await taking) == []
    assert await column(postgres_database, run_id, "place") == "ended"
    assert not waited
    await other.close()


async def test_a_transaction_that_has_read_may_write(tmp_path: Path) -> None:
    """SQLite rejects the write of a transaction that read before another transaction wrote."""
    database = SqliteDatabase(str(tmp_path / "redrive.db"))
    await database.migrate()
    other = database.another()
    add = "INSERT INTO redrive.limits (name, maximum, in_use) VALUES (:name, 1, 0)"
    async with database.transaction() as session:
        assert await ask(session, "SELECT name FROM redrive.limits") == []
        adding = asyncio.create_task(ask(other, add, name="other"))
        await asyncio.wait({adding}, timeout=0.1)
        await ask(session, add, name="own")
    await adding

    assert sorted(await ask(database, "SELECT name FROM redrive.limits")) == [("other",), ("own",)]
    await other.close()
    await database.close()


async def test_a_worker_that_takes_over_its_own_run_stops_the_first_attempt() -> None:
    """A worker that slept past its lease reclaims its own run: the first attempt must not continue."""
    async with in_flight(new_app()) as (test, worker, stopped):
        test.clock.advance(61)
        assert await worker.maintenance.reclaim() == 1
        await asyncio.wait_for(stopped.wait(), 2)


async def test_a_handler_is_stopped_when_another_worker_has_its_lease() -> None:
    app = new_app()
    async with in_flight(app) as (test, worker, stopped):
        await sql(app, "UPDATE runs SET token = token + 1, worker = 'another'")
        test.clock.advance(30)
        await worker.in_flight.lease_renewer.renew(parts_of(app).database)
        await asyncio.wait_for(stopped.wait(), 2)


@asynccontextmanager
async def in_flight(app: Redrive) -> AsyncIterator[tuple[Harness, Worker, asyncio.Event]]:
    """A worker with a run in progress, and an event that is set when the run is stopped."""
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        began.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    async with bench(app) as test:
        await app.start(slow)
        worker = parts_of(app).worker_in_test()
        assert await worker.claimer.claim(1) == 1
        await began.wait()
        try:
            yield test, worker, stopped
        finally:
            await worker.parts.executor.abandon()
