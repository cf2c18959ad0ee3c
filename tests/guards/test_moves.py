"""Runs that move between tables on PostgreSQL lose no column and are never in two tables.

The tests also run on SQLite, where the row stays in one table and the same must hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.guards.test_fenced_writes import completed_partly
from tests.store.build import (
    DEFINITION,
    EXPIRED,
    ORG,
    advanced,
    ask,
    claimed,
    column,
    completed,
    dead_letter_row,
    enqueued,
    holder,
    new_run,
    parked,
    rescheduled,
    step_row,
    stopped,
    tables,
    value,
)

from redrive.model.claim import Claim
from redrive.model.replay import Mode
from redrive.model.run import NewRun
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Change, Completed, Record
from redrive.store.replays import NewReplay
from redrive.store.store import Store

TABLES = ("ready", "idle", "leases", "ended")


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def made_ready(claim: Claim) -> Change:
    return rescheduled(claim, place="ready")


def made_due(claim: Claim) -> Change:
    return rescheduled(claim, delay=EXPIRED)


def failed(claim: Claim) -> Change:
    return stopped(claim, state="FAILED", step_state="FAILED")


def new_replay(claim: Claim, letter_id: str = "") -> NewReplay:
    return NewReplay(
        id=f"again {claim.id}",
        org=ORG,
        letter_id=letter_id,
        run_id=claim.id,
        step_index=0,
        from_step=0,
        mode=Mode.FROM_STEP,
        automatic=False,
        requested_by="ana",
        reason="fixed",
    )


# Columns kept by a move

RECORDED: dict[str, Callable[[Claim], Change]] = {
    "complete": completed,
    "complete_step": completed,
    "complete_partly": completed_partly,
    "hand_over": advanced,
    "reschedule": rescheduled,
    "reschedule, ready": made_ready,
    "park": parked,
    "stop": stopped,
}


async def write(store: Store, name: str, claim: Claim, change: Change) -> bool:
    if name == "complete_step":
        assert isinstance(change, Completed)
        return bool(await store.records.finished_steps([change], [step_row(claim)]).write())
    return bool(await store.records.record([Record(change)]))


@pytest.mark.parametrize("name", RECORDED)
async def test_a_record_leaves_the_marks_of_its_lease_i4(store: Store, database: Database, name: str) -> None:
    """After an unknown commit, a worker finds out by token and epoch that its record was written."""
    claim = await claimed(store)
    change = RECORDED[name](claim)
    assert await write(store, name, claim, change)
    place = await column(database, claim.id, "place")

    assert await column(database, claim.id, "token", "epoch") == (claim.token, claim.epoch)
    assert await store.records.applied([change]) == ({claim.id: place}, set())


async def promoted(store: Store, claim: Claim) -> None:
    assert await store.leases.promote(10) == ["default"]


async def released(store: Store, claim: Claim) -> None:
    assert len(await store.limits.release("breaker:mail", 10)) == 1


async def cancelled(store: Store, claim: Claim) -> None:
    assert (await store.runs.cancel(claim.id, ORG)).answer == "cancelled"


async def restarted(store: Store, claim: Claim) -> None:
    letter_id = await value(store.database, "SELECT id FROM redrive.dead_letters")
    async with store.database.transaction() as session:
        assert (await store.replays.begin(session, [new_replay(claim, letter_id)])).replays


async def resumed(store: Store, claim: Claim) -> None:
    async with store.database.transaction() as session:
        assert await store.replays.resume(session, new_replay(claim)) == "default"


Move = Callable[[Store, Claim], Awaitable[None]]
FURTHER: dict[str, tuple[Callable[[Claim], Change], Move]] = {
    "promote": (made_due, promoted),
    "release": (parked, released),
    "cancel_idle, ready": (made_ready, cancelled),
    "cancel_idle, waiting": (rescheduled, cancelled),
    "restart": (stopped, restarted),
    "resume": (failed, resumed),
}


@pytest.mark.parametrize("name", FURTHER)
async def test_later_moves_of_a_run_keep_the_marks_of_its_lease_i4(
    store: Store, database: Database, name: str
) -> None:
    """The worker may look for its record after another process moved the run and before the next claim."""
    make, move = FURTHER[name]
    claim = await claimed(store)
    record = Record(make(claim))
    letter = dead_letter_row(claim) if name == "restart" else None
    assert await store.records.record([record._replace(dead_letter=letter)])

    await move(store, claim)

    assert await column(database, claim.id, "token", "epoch") == (claim.token, claim.epoch)
    place = await column(database, claim.id, "place")
    assert await store.records.applied([record.change]) == ({claim.id: place}, set())


CANCELLED_AT_WORK = {
    name: make for name, make in RECORDED.items() if name not in ("reschedule", "reschedule, ready")
} | {"reschedule": rescheduled}


@pytest.mark.parametrize("name", CANCELLED_AT_WORK)
async def test_a_record_does_not_undo_the_request_to_cancel(
    store: Store, database: Database, name: str
) -> None:
    claim = await claimed(store)
    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
    asked = await column(database, claim.id, "cancel_requested_at")

    assert await write(store, name, claim, RECORDED[name](claim))

    assert await column(database, claim.id, "cancel_requested_at") == asked
    for again in await store.leases.claim("default", 1, holder()):
        assert again.cancel_requested_at == asked


async def test_a_second_cancellation_keeps_the_time_of_the_first(store: Store, database: Database) -> None:
    claim = await claimed(store)
    for _ in range(2):
        assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
        await ask(
            database,
            "UPDATE redrive.runs SET cancel_requested_at = 5.0 WHERE cancel_requested_at <> 5.0",
        )

    assert (await store.runs.cancel(claim.id, ORG)).answer == "requested"
    assert await column(database, claim.id, "cancel_requested_at") == 5.0


@pytest.mark.parametrize("make", [rescheduled, stopped], ids=["reschedule", "stop"])
async def test_the_first_failure_stays_the_first(
    store: Store, database: Database, make: Callable[[Claim], Change]
) -> None:
    claim = await claimed(store)
    assert await store.records.record([Record(made_ready(claim))])
    await ask(database, "UPDATE redrive.runs SET first_failed_at = 5.0, last_failed_at = 5.0")
    [again] = await store.leases.claim("default", 1, holder())

    assert await store.records.record([Record(make(again))])

    first, last = await column(database, claim.id, "first_failed_at", "last_failed_at")
    assert first == 5.0
    assert last > 5.0


# One table at a time


async def tables_of(database: PostgresDatabase, run_id: str) -> list[str]:
    """Return the tables that hold the run, once for each row."""
    found = []
    for table in TABLES:
        rows = await ask(database, f"SELECT 1 FROM redrive.{table} WHERE id = :id", id=run_id)
        found += [table] * len(rows)
    return found


async def cancelled_at_work(store: Store, claim: Claim) -> None:
    await store.runs.cancel(claim.id, ORG)


async def left_alone(store: Store, claim: Claim) -> None:
    pass


def suspected(claim: Claim) -> Change:
    return rescheduled(claim, delay=EXPIRED, isolation=1)


async def suspect_released(store: Store, claim: Claim) -> None:
    await store.leases.promote(1)
    [again] = await store.leases.claim_alone("default", holder())
    assert await store.records.record([Record(parked(again))])
    await released(store, again)


PATHS: dict[str, tuple[Move, Callable[[Claim], Change], Move, str]] = {
    "reschedule, ready": (left_alone, made_ready, left_alone, "ready"),
    "reschedule, waiting": (left_alone, rescheduled, left_alone, "idle"),
    "park, held": (left_alone, parked, left_alone, "idle"),
    "park, cancelled": (cancelled_at_work, parked, left_alone, "ready"),
    "promote, ready": (left_alone, made_due, promoted, "ready"),
    "promote, alone": (left_alone, suspected, promoted, "idle"),
    "release, ready": (left_alone, parked, released, "ready"),
    "release, alone": (left_alone, suspected, suspect_released, "idle"),
}


@pytest.mark.parametrize("name", PATHS)
async def test_the_work_of_a_run_is_in_one_table(postgres_database: PostgresDatabase, name: str) -> None:
    store = Store(postgres_database)
    before, make, after, table = PATHS[name]
    claim = await claimed(store)
    await before(store, claim)
    assert await store.records.record([Record(make(claim))])
    await after(store, claim)

    assert await tables_of(postgres_database, claim.id) == [table]


@pytest.mark.parametrize(("delay", "table"), [(0.0, "ready"), (60.0, "idle")], ids=["ready", "idle"])
async def test_a_new_run_is_in_one_table(
    postgres_database: PostgresDatabase, delay: float, table: str
) -> None:
    store = Store(postgres_database)
    runs = [new_run(delay=delay), new_run(delay=1.0)]
    await store.runs.enqueue(runs, [DEFINITION])

    assert await tables_of(postgres_database, runs[0].id) == [table]


# Starting once


async def over(store: Store, run: NewRun) -> None:
    """Execute the run to its end."""
    await store.leases.promote(10)
    [claim] = await store.leases.claim("default", 1, holder())
    assert claim.id == run.id
    assert await store.records.record([Record(completed(claim))])


@pytest.mark.parametrize("delay", [0.0, EXPIRED, 60.0])
async def test_a_start_that_is_repeated_does_not_start_again_i1(
    store: Store, database: Database, delay: float
) -> None:
    runs = [new_run(), new_run(delay=delay)]
    assert await store.runs.enqueue(runs, [DEFINITION]) == [run.id for run in runs]
    before = await tables(database)

    assert await store.runs.enqueue(runs, [DEFINITION]) == [run.id for run in runs]

    assert await tables(database) == before


@pytest.mark.parametrize("by", ["id", "key"])
@pytest.mark.parametrize("delay", [0.0, 0.01])
async def test_a_finished_run_is_not_started_again_i1(
    store: Store, database: Database, delay: float, by: str
) -> None:
    key = {"idempotency_key": "key", "request_hash": "hash"} if by == "key" else {}
    run = new_run(delay=delay, **key)
    await store.runs.enqueue([run], [DEFINITION])
    await ask(database, "UPDATE redrive.runs SET due_at = 1.0 WHERE place = 'waiting'")
    await over(store, run)
    before = await tables(database)

    again = run if by == "id" else run.replace(id="another")
    assert await store.runs.enqueue([again], [DEFINITION]) == [run.id]

    assert await tables(database) == before
    assert await store.leases.promote(10) == []
    assert await store.leases.claim("default", 10, holder()) == []


# Other runs are not changed


async def cancelling(store: Store, one: Claim) -> None:
    await store.runs.cancel(one.id, ORG)


async def removing(store: Store, one: Claim) -> None:
    await ask(store.database, "UPDATE redrive.runs SET state = 'SUCCESS' WHERE id = :id", id=one.id)
    assert await store.runs.remove_expired(EXPIRED, 10) == 1


def unchanged(claim: Claim) -> None:
    return None


ONE_OF_TWO: dict[str, tuple[Callable[[Claim], Change | None], Move]] = {
    "cancel_idle, ready": (made_ready, cancelling),
    "cancel_idle, waiting": (rescheduled, cancelling),
    "cancel_leased": (unchanged, cancelling),
    "delete_run": (failed, removing),
    "resume": (failed, resumed),
}


@pytest.mark.parametrize("name", ONE_OF_TWO)
async def test_a_change_of_one_run_does_not_change_others(
    store: Store, database: Database, name: str
) -> None:
    make, act = ONE_OF_TWO[name]
    await enqueued(store, 2)
    one, other = await store.leases.claim("default", 2, holder())
    changes = [change for change in map(make, (one, other)) if change is not None]
    assert len(await store.records.record([Record(change) for change in changes])) == len(changes)
    whole = "SELECT * FROM redrive.runs WHERE id = :id"
    before = await ask(database, whole, id=other.id)

    await act(store, one)

    assert await ask(database, whole, id=other.id) == before


async def test_a_run_that_has_just_ended_is_kept(store: Store) -> None:
    claim = await claimed(store)
    assert await store.records.record([Record(completed(claim))])

    assert await store.runs.remove_expired(3600.0, 10) == 0


async def test_replays_of_several_runs_do_not_mix(store: Store, database: Database) -> None:
    """Each run gets the input of its own replay."""
    await enqueued(store, 2)
    claims = await store.leases.claim("default", 2, holder())
    letters = [dead_letter_row(claim) for claim in claims]
    records = [Record(stopped(claim), dead_letter=each) for claim, each in zip(claims, letters, strict=True)]
    assert len(await store.records.record(records)) == 2
    replays = [
        new_replay(claim, each.id).replace(step_input=f'"{claim.id}"')
        for claim, each in zip(claims, letters, strict=True)
    ]

    async with database.transaction() as session:
        assert len((await store.replays.begin(session, replays)).replays) == 2

    for claim in claims:
        assert await column(database, claim.id, "step_input", "replays") == (f'"{claim.id}"', 1)


# Counters that were never set are 0

COUNTS = (
    "failures",
    "rate_limit_waits",
    "holds",
    "losses",
    "isolated_crashes",
    "isolation",
    "replays",
    "redrives",
    "step_only",
    "has_letter",
)


@pytest.mark.parametrize("name", COUNTS)
async def test_counters_of_a_finished_run_that_were_never_set_are_0(
    store: Store, database: Database, name: str
) -> None:
    claim = await claimed(store)
    assert await store.records.record([Record(completed(claim))])

    assert await column(database, claim.id, name) == 0


@pytest.mark.parametrize("name", COUNTS)
async def test_counters_of_a_failed_run_that_were_never_set_are_read_as_0(
    postgres_database: PostgresDatabase, name: str
) -> None:
    claim = await claimed(store := Store(postgres_database))
    assert await store.records.record([Record(failed(claim))])
    await ask(postgres_database, f"UPDATE redrive.ended SET {name} = NULL")

    async with postgres_database.transaction() as session:
        found = await store.leases.failed(session, claim.id, ORG)

    assert found is not None
    assert getattr(found, name) == 0
