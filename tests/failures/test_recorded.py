"""Every change beyond the run itself is emitted once, on each path of a record."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.engine.workbench import EventCollector, new_app, seamed, settle, working
from tests.failures.test_redrive_processor import until
from tests.servers import PostgresServer

from redrive import Context, Redrive
from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.model.event import GroupChanged, ReplayEnded, ReplayRequested, RunFinished, StepDied
from redrive.settings import Settings
from redrive.testing import in_memory

SUCCEEDED = [ReplayRequested, ReplayEnded, RunFinished]


@pytest.fixture
async def app(live_postgres: PostgresServer, schema: str) -> AsyncIterator[Redrive]:
    app = Redrive(live_postgres.url, settings=Settings(schema=schema), log=False)
    yield app
    await app.close()


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within a transaction"])
async def test_a_replay_ends_also_when_its_task_completes_within_a_transaction(
    app: Redrive, live_postgres: PostgresServer, within: bool
) -> None:
    broken = True

    @app.task
    async def book(context: Context) -> str:
        if broken:
            raise ValueError("no such account")
        if within:
            connection = await asyncpg.connect(live_postgres.url)
            async with connection.transaction():
                await context.complete("booked", connection=connection)
                assert not collector.of(ReplayEnded)  # nothing is committed yet
            await connection.close()
        return "booked"

    async with working(app, timeout=20.0):
        run = await app.start(book)
        await run.wait(10)
        letter = await run.dead_letter()
        assert letter is not None
        collector, broken = EventCollector(app), False
        await app.failures(by="ana").replay(letter.id)
        await until(lambda: bool(collector.of(RunFinished)))
        assert await run.result(10) == "booked"
    assert [type(each) for each in collector.events if type(each) in SUCCEEDED] == SUCCEEDED
    assert collector.of(ReplayEnded) == [
        ReplayEnded(org="default", dlq_id=letter.id, run_id=run.id, state="SUCCEEDED")
    ]


async def test_a_completion_that_was_rolled_back_ends_no_replay(
    app: Redrive, live_postgres: PostgresServer
) -> None:
    broken = True

    @app.task
    async def book(context: Context) -> None:
        if broken:
            raise ValueError("no such account")
        connection = await asyncpg.connect(live_postgres.url)
        transaction = connection.transaction()
        await transaction.start()
        await context.complete("booked", connection=connection)
        await transaction.rollback()
        await connection.close()

    async with working(app, timeout=20.0):
        run = await app.start(book)
        await run.wait(10)
        letter = await run.dead_letter()
        assert letter is not None
        collector, broken = EventCollector(app), False
        await app.failures().replay(letter.id)
        await until(lambda: bool(collector.of(RunFinished)))
    assert [each.state for each in collector.of(ReplayEnded)] == ["FAILED"]


async def test_a_group_that_an_external_task_opens_again_is_announced() -> None:
    queue = DeadLetterQueue("sqlite://:memory:", log=False)
    async with in_memory(queue.app):
        collector = EventCollector(queue.app)
        await queue.enqueue("one", {"to": "ana"}, error="the mailbox is full")
        groups = queue.app.failures(org=queue.org, by="ana").groups
        [line] = (await groups.list()).lines
        key = line.group.fingerprint
        await groups.resolve(key, "a larger mailbox")
        await queue.enqueue("two", {"to": "bob"}, error="the mailbox is full")
    org = line.group.org
    assert collector.of(GroupChanged) == [
        GroupChanged(org=org, fingerprint=key, before="OPEN", after="RESOLVED", by="ana"),
        GroupChanged(org=org, fingerprint=key, before="RESOLVED", after="OPEN", by="redrive"),
    ]


async def test_a_group_that_a_run_entered_by_hand_opens_again_is_announced() -> None:
    app = Redrive("sqlite://:memory:", settings=Settings(dlq_strategy="manual"), log=False)

    @app.task
    async def book() -> None:
        raise ValueError("no such account")

    async with in_memory(app) as test:
        runs = [await app.start(book), await app.start(book)]
        await settle(test, app)
        failures = app.failures(by="ana")
        await failures.add(runs[0].id)
        [line] = (await failures.groups.list()).lines
        await failures.groups.resolve(line.group.fingerprint, "an account was opened")
        collector = EventCollector(app)
        await failures.add(runs[1].id)
    assert collector.of(GroupChanged) == [
        GroupChanged(
            org="default", fingerprint=line.group.fingerprint, before="RESOLVED", after="OPEN", by="redrive"
        )
    ]


@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED"])
async def test_a_replay_whose_commit_got_no_answer_ends_once(outcome: str) -> None:
    app = new_app()
    broken = True
    collector = EventCollector(app)

    @app.task
    async def book() -> None:
        if broken:
            raise ValueError("no such account")

    async with seamed(app) as (test, seam):
        run = await app.start(book)
        await settle(test, app)
        letter = await run.dead_letter()
        assert letter is not None
        broken = outcome == "FAILED"
        await app.failures().replay(letter.id)
        seam.fail("complete" if outcome == "SUCCEEDED" else "stop", after=True)
        await settle(test, app)
        assert seam.triggered
    assert collector.of(ReplayEnded) == [
        ReplayEnded(org="default", dlq_id=letter.id, run_id=run.id, state=outcome)
    ]
    assert {each.dlq_id for each in collector.of(StepDied)} == {letter.id}


async def test_a_replay_that_is_cancelled_before_a_worker_takes_it_ends() -> None:
    app = new_app()

    @app.task
    async def book() -> None:
        raise ValueError("no such account")

    async with in_memory(app) as test:
        run = await app.start(book)
        await settle(test, app)
        letter = await run.dead_letter()
        assert letter is not None
        await app.failures(by="ana").replay(letter.id)
        collector = EventCollector(app)
        await run.cancel(by="ana")
    assert collector.of(ReplayEnded) == [
        ReplayEnded(org="default", dlq_id=letter.id, run_id=run.id, state="CANCELLED")
    ]
