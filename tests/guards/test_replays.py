"""Replays start only failed runs that are still at the step that was seen, once and in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.engine.workbench import new_app, seamed, sql
from tests.store.build import (
    ORG,
    ask,
    claimed,
    completed,
    dead_letter_row,
    holder,
    places,
    stopped,
    tables,
    value,
)
from tests.store.letters import column_of, letter, put, put_failed

from redrive.errors import FinalError, QueueFullError, StoreUnavailableError
from redrive.model.failed_task import NewFailedTask
from redrive.model.replay import Mode, ReplayState
from redrive.store.automatic_redrive import Due, Redrives
from redrive.store.bulk_replays import NewOperation
from redrive.store.database import Database, OpenTransaction, Row, Session
from redrive.store.dead_letters import LetterTags
from redrive.store.external_failures import ExternalFailures
from redrive.store.limits import Limits
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Record
from redrive.store.replays import NewReplay, Settlement, StartedReplays
from redrive.store.statement import Statement
from redrive.store.store import Store

PATIENCE = 60.0


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def new_replay(database: Database, letter_id: str, **changes: Any) -> NewReplay:
    run_id = await column_of(database, letter_id, "run_id")
    new = NewReplay(
        id=f"again {letter_id}",
        org=ORG,
        letter_id=letter_id,
        run_id=run_id,
        step_index=0,
        from_step=0,
        mode=Mode.FROM_STEP,
        automatic=False,
        requested_by="ana",
        reason="fixed",
    )
    return new.replace(**changes)


async def begun(store: Store, *replays: NewReplay) -> StartedReplays:
    async with store.database.transaction() as session:
        return await store.replays.begin(session, replays)


# Replays that do not start


SITUATIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "it is at work": ("UPDATE redrive.runs SET place = 'ready', state = 'RUNNING'", {}),
    "it was cancelled": ("UPDATE redrive.runs SET state = 'CANCELLED'", {}),
    "it has succeeded": ("UPDATE redrive.runs SET state = 'SUCCESS'", {}),
    "the letter was closed": ("UPDATE redrive.dead_letters SET state = 'IGNORED'", {}),
    "the letter is replayed already": ("UPDATE redrive.dead_letters SET state = 'REPLAYING'", {}),
    "the run has gone on": ("UPDATE redrive.runs SET step_index = 1", {"step_index": 1, "from_step": 1}),
    "both have gone on": (
        "UPDATE redrive.dead_letters SET step_index = 1; UPDATE redrive.runs SET step_index = 1",
        {},
    ),
    "the letter is of another run": (
        "UPDATE redrive.dead_letters SET run_id = '00000000000000000000000000000001'",
        {},
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_an_item_that_differs_from_the_plan_does_not_start_i7_i10(
    store: Store, database: Database, situation: str
) -> None:
    tampering, changes = SITUATIONS[situation]
    new = await new_replay(database, await put_failed(database), **changes)
    for text in tampering.split("; "):
        await ask(database, text)
    before = await tables(database)

    assert (await begun(store, new)).replays == ()

    assert await tables(database) == before


async def test_of_two_that_replay_a_letter_one_does(store: Store, database: Database) -> None:
    new = await new_replay(database, await put_failed(database))
    others = [Store(database.another()) for _ in range(3)]
    several = [new.replace(id=f"number {number}") for number in range(3)]

    answers = await asyncio.gather(*(begun(*each) for each in zip(others, several, strict=True)))

    assert sorted(len(each.replays) for each in answers) == [0, 0, 1]
    assert await value(database, "SELECT count(*) FROM redrive.replays") == 1
    for other in others:
        await other.close()


async def test_a_replay_whose_answer_was_lost_is_not_refused() -> None:
    """The replay has started. A repeated request finds it and does not take it for another caller's."""
    app = new_app()

    @app.task(max_attempts=1)
    async def pay() -> None:
        raise FinalError("no such account")

    async with seamed(app) as (test, seam):
        run = await app.start(pay)
        await test.drain()
        letter = await run.dead_letter()
        assert letter is not None
        seam.fail("mark_replaying", after=True)
        replay = await app.failures().replay(letter.id)

        assert (replay.state, seam.triggered) == ("RUNNING", ["mark_replaying"])
        assert await sql(app, "SELECT count(*) FROM replays") == [(1,)]


RESUMING: Mapping[str, str] = {
    "it is at work": "UPDATE redrive.runs SET place = 'ready', state = 'RUNNING'",
    "it has succeeded": "UPDATE redrive.runs SET state = 'SUCCESS'",
    "it has gone on": "UPDATE redrive.runs SET step_index = 1",
    "it has a live letter": "UPDATE redrive.dead_letters SET state = 'EXHAUSTED'",
}


@pytest.mark.parametrize("situation", RESUMING)
async def test_only_a_failed_run_without_a_live_letter_is_resumed(
    store: Store, database: Database, situation: str
) -> None:
    new = await new_replay(database, await put_failed(database, state="IGNORED"))
    await ask(database, RESUMING[situation])
    before = await tables(database)

    async with database.transaction() as session:
        assert await store.replays.resume(session, new) is None

    assert await tables(database) == before


# All or nothing


class Meddling(OpenTransaction):
    """A session that runs an action right before a statement."""

    def __init__(self, session: Session, name: str, tampering: str) -> None:
        self._session = session
        self._name = name
        self._tampering = tampering

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        await self._meddle(statement)
        return await self._session.fetch(statement, parameters)

    async def fetch_many(self, statement: Statement, rows: Sequence[Any]) -> list[Row]:
        await self._meddle(statement)
        return await self._session.fetch_many(statement, rows)

    async def _meddle(self, statement: Statement) -> None:
        if statement.sqlite.name == self._name:
            await ask(self._session, self._tampering)


async def test_closing_a_letter_while_its_replay_starts_undoes_the_replay_i1(
    store: Store, database: Database
) -> None:
    letters = [await put_failed(database) for _ in range(3)]
    several = [await new_replay(database, each) for each in letters]
    before = await tables(database)
    close = f"UPDATE redrive.dead_letters SET state = 'IGNORED' WHERE id = '{letters[1]}'"

    with pytest.raises(StoreUnavailableError, match="try again"):
        async with database.transaction() as session:
            await store.replays.begin(Meddling(session, "mark_replaying", close), several)

    assert await tables(database) == before


@asynccontextmanager
async def rolled_back(database: Database) -> AsyncIterator[Session]:
    """A transaction that never ends; a statement outside it would wait forever."""

    class Over(Exception):
        pass

    with pytest.raises(Over):
        async with asyncio.timeout(PATIENCE), database.transaction() as session:
            yield session
            raise Over


async def test_a_replay_that_is_rolled_back_leaves_no_entry_in_the_audit_w16(
    store: Store, database: Database
) -> None:
    new = await new_replay(database, await put_failed(database))
    before = await tables(database)

    async with rolled_back(database) as session:
        assert (await store.replays.begin(session, [new])).replays == (new,)

    assert await tables(database) == before


async def test_items_that_are_rolled_back_leave_no_entry_in_the_audit_w16(
    store: Store, database: Database
) -> None:
    letter_id = await put_failed(database)
    operation_id = await planned(store, letter_id)
    before = await tables(database)

    async with rolled_back(database) as session:
        assert len((await store.replays.begin_planned(session, operation_id, 1)).replays) == 1

    assert await tables(database) == before


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED"])
async def test_the_outcome_of_a_replay_is_rolled_back_with_its_record_w2(
    store: Store, database: Database, outcome: str
) -> None:
    claim = await claimed(store)
    letter = dead_letter_row(claim)
    assert await store.records.record([Record(stopped(claim), dead_letter=letter)])
    assert (await begun(store, await new_replay(database, letter.id))).replays
    [again] = await store.leases.claim("default", 1, holder())
    settlement = Settlement(again.id, 0, ReplayState(outcome))
    record = Record(completed(again), settlement=settlement)
    if outcome == "FAILED":
        record = Record(stopped(again), dead_letter=dead_letter_row(again), settlement=settlement)
    before = await tables(database)

    async with rolled_back(database) as session:
        assert places(await store.records.record_within(session, [record])) == {again.id: "ended"}

    assert await tables(database) == before
    assert places(await store.records.record([record])) == {again.id: "ended"}
    assert await value(database, "SELECT state FROM redrive.replays") == outcome
    state = "RESOLVED" if outcome == "SUCCEEDED" else "OPEN"
    assert await column_of(database, letter.id, "state") == state


# Bulk replays


async def planned(store: Store, *letters: str) -> str:
    new = NewOperation("operation", ORG, "FROM_STEP", "{}", "{}", None, "", "{}", "ana")
    async with store.database.transaction() as session:
        await store.operations.freeze_ids(session, {**new._asdict(), "requested_by": "ana"}, list(letters))
        await store.operations.insert(session, new)
    return new.id


async def test_an_item_starts_once(store: Store, database: Database) -> None:
    operation_id = await planned(store, await put_failed(database))
    async with database.transaction() as session:
        assert len((await store.replays.begin_planned(session, operation_id, 5)).replays) == 1
    before = await tables(database)

    async with database.transaction() as session:
        assert await store.replays.begin_planned(session, operation_id, 5) == StartedReplays((), ())

    assert await tables(database) == before


async def test_concurrent_changes_of_an_operation_see_each_other(
    postgres_database: PostgresDatabase,
) -> None:
    """Two callers start one bulk replay: the second waits for the first. SQLite has only one writer."""
    store, other = Store(postgres_database), Store(postgres_database.another())
    operation_id = await planned(store, await put_failed(postgres_database))

    async def seen() -> str:
        async with other.database.transaction() as session:
            return (await other.operations.lock(session, operation_id, ORG)).operation.state

    async with postgres_database.transaction() as session:
        operation, _ = await store.operations.lock(session, operation_id, ORG)
        looking = asyncio.create_task(seen())
        while not looking.done() and not await waiting(postgres_database):
            await asyncio.sleep(0.01)
        await store.operations.save(session, operation.replace(state="RUNNING"))

    assert await looking == "RUNNING"
    await other.close()


async def test_concurrent_changes_of_a_letter_see_each_other(
    postgres_database: PostgresDatabase,
) -> None:
    """Two callers tag one dead letter: the second adds to the tags of the first."""
    store, other = Store(postgres_database), Store(postgres_database.another())
    letter_id = await put_failed(postgres_database)

    async def seen() -> Sequence[str]:
        async with other.database.transaction() as session:
            return (await other.dead_letters.lock(session, [letter_id], ORG))[letter_id].tags

    async with postgres_database.transaction() as session:
        await store.dead_letters.lock(session, [letter_id], ORG)
        looking = asyncio.create_task(seen())
        while not looking.done() and not await waiting(postgres_database):
            await asyncio.sleep(0.01)
        await store.dead_letters.tag(session, [LetterTags(letter_id, ORG, '["urgent"]')])

    assert await looking == ("urgent",)
    await other.close()


async def test_two_concurrent_reports_do_not_both_take_the_last_place_m6(
    postgres_database: PostgresDatabase,
) -> None:
    """The second caller waits for the first, then finds the stand-alone queue full."""
    other = postgres_database.another()
    one, two = (ExternalFailures(each, Limits(each)) for each in (postgres_database, other))

    async def second() -> None:
        async with other.transaction() as session:
            await two.take(session, reported("second"), 1)

    async with postgres_database.transaction() as session:
        await one.take(session, reported("first"), 1)
        await put(session, [letter(run_id="first", queue="dlq:mail")])  # type: ignore[arg-type]
        reporting = asyncio.create_task(second())
        while not reporting.done() and not await waiting(postgres_database):
            await asyncio.sleep(0.01)

    with pytest.raises(QueueFullError):
        await reporting
    await other.close()


def reported(name: str) -> NewFailedTask:
    """A failed task from another system."""
    texts = ("{}", name, "hash", name, None, None)
    return NewFailedTask(name, ORG, "dlq:mail", "digest", "dlq:mail", 0, *texts, 1, "reporter", "v1")


async def waiting(database: Database) -> bool:
    """Return whether a statement on these tables waits for a lock. Other tests may share the server."""
    ours = "wait_event_type = 'Lock' AND query LIKE '%redrive.%'"
    return bool(await value(database, f"SELECT count(*) FROM pg_stat_activity WHERE {ours}"))


# Automatic redrives


async def due_letter(database: Database, **changes: Any) -> tuple[str, Due]:
    letter_id = await put_failed(database, redrive="immediate", next_redrive_at=1.0, **changes)
    return letter_id, Due(letter_id, ORG, await column_of(database, letter_id, "run_id"), 0)


async def test_letters_that_wait_for_another_are_neither_found_nor_taken_m12(database: Database) -> None:
    redrives = Redrives(database)
    letter_id, due = await due_letter(database)
    needed = await put_failed(database)
    link = "INSERT INTO redrive.dead_letter_dependencies (letter_id, depends_on, org) VALUES (:id, :on, :org)"
    await ask(database, link, id=letter_id, on=needed, org=ORG)

    assert await redrives.due(10, queue=None, open_breakers=(), known=()) == []
    async with database.transaction() as session:
        assert await redrives.lock_due(session, [due]) == []
    await ask(database, "UPDATE redrive.dead_letters SET state = 'RESOLVED' WHERE id = :id", id=needed)
    assert await redrives.due(10, queue=None, open_breakers=(), known=()) == [due]
    async with database.transaction() as session:
        assert await redrives.lock_due(session, [due]) == [due]


NOT_DUE = {
    "not yet": "UPDATE redrive.dead_letters SET next_redrive_at = 1e12",
    "never": "UPDATE redrive.dead_letters SET next_redrive_at = NULL",
    "exhausted": "UPDATE redrive.dead_letters SET state = 'EXHAUSTED'",
    "replayed": "UPDATE redrive.dead_letters SET state = 'REPLAYING'",
}


@pytest.mark.parametrize("situation", NOT_DUE)
async def test_letters_that_are_not_due_are_neither_found_nor_taken_m3(
    database: Database, situation: str
) -> None:
    redrives = Redrives(database)
    _, due = await due_letter(database)
    await ask(database, NOT_DUE[situation])

    assert await redrives.due(10, queue=None, open_breakers=(), known=()) == []
    async with database.transaction() as session:
        assert await redrives.lock_due(session, [due]) == []


async def test_a_processor_skips_letters_taken_by_another_one(postgres_database: PostgresDatabase) -> None:
    """Otherwise it would wait and then find nothing due: no double redrive, but no progress either."""
    first, second = Redrives(postgres_database), Redrives(other := postgres_database.another())
    _, due = await due_letter(postgres_database)
    async with asyncio.timeout(PATIENCE), postgres_database.transaction() as one, other.transaction() as two:
        assert await first.lock_due(one, [due]) == [due]
        assert await second.lock_due(two, [due]) == []
    await other.close()
