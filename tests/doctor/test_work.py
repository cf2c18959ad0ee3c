"""What the doctor says about work, on both databases, each trouble provoked for real."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.doctor.diagnosis import about, is_complete, only
from tests.engine.workbench import PATIENCE
from tests.server.admin.streamed import QUIET
from tests.store.build import ask
from tests.store.by_hand import letters

from redrive import FinalError
from redrive.app import Redrive
from redrive.doctor import DoctorLimits, FindingCode, HealthReport, State, examine
from redrive.engine.encryption import Encryption, key_id
from redrive.model.fact import fact
from redrive.model.stream import Gap, StreamName, StreamReport
from redrive.model.worker import BlockingStep
from redrive.parts import parts_of, rewire
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.settings import Settings, new_encryption_key
from redrive.store.leases import Holder
from redrive.store.postgres import PostgresDatabase
from redrive.verify import verify

IMPATIENT = DoctorLimits(leeway_seconds=0.0, silent_seconds=0.0, backlog_seconds=0.0)
OF_THE_SERVER = {"fsync is off", "full_page_writes is off"}
"""How the PostgreSQL of tests is started: it has nothing to lose."""


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await done():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def at_work(app: Redrive, **options: Any) -> AsyncIterator[None]:
    """A worker that has said that it is there. At the end it is gone, as if killed: nothing is given back."""
    worker = app.worker(**{"poll_seconds": 0.02, "queues": ("default",), **options})
    working = asyncio.create_task(worker.run())
    try:
        await until(lambda: some(app, "SELECT 1 FROM redrive.workers"))
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def some(app: Redrive, text: str) -> bool:
    return bool(await ask(parts_of(app).database, text))


async def killed(app: Redrive) -> None:
    """A worker begins something that takes long, and is gone."""

    @app.task
    async def endless() -> None:
        await asyncio.sleep(3600.0)

    await app.start(endless)
    leased = "SELECT 1 FROM redrive.runs WHERE place = 'leased'"
    async with at_work(app, lease_seconds=0.1):
        await until(lambda: some(app, leased))
    await until(lambda: some(app, f"{leased} AND leased_until < :now"))


async def test_an_empty_database_is_well(app: Redrive) -> None:
    report = await examine(parts_of(app).database, keys=())
    assert {
        each.seen for each in report.findings if each.state not in (State.NOTE, State.OK)
    } <= OF_THE_SERVER
    assert only(report, "queues").seen == "nothing is waiting"
    assert only(report, "schema").seen.startswith("the tables are up to date (version ")
    assert all(map(is_complete, report.findings))


async def test_a_queue_without_a_worker(app: Redrive) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await app.start(send)
    await app.start(send, delay=3600.0)
    found = only(await examine(parts_of(app).database), "queues")
    assert (found.state, found.command) == (State.BAD, "redrive worker MODULE:ATTRIBUTE --queue mail")
    assert found.seen.startswith("the queue mail has 1 run ready (oldest: ")


async def test_work_that_no_worker_knows(app: Redrive) -> None:
    """Its runs are ready when the doctor is asked, and are held by a worker that does not know them."""

    @app.task
    async def ship() -> None: ...

    @app.task
    async def price() -> None: ...

    for _ in range(3):
        await app.start(ship)
    async with at_work(app, workflows=("price",)):
        await until(lambda: some(app, "SELECT 1 FROM redrive.runs WHERE place = 'held'"))
    report = await examine(parts_of(app).database)
    found = only(report, "unknown work")
    assert (found.state, found.seen) == (State.BAD, "no worker knows the task 'ship': 3 runs")
    assert is_complete(found)


async def test_a_queue_that_will_need_a_worker(app: Redrive) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await app.start(send, delay=3600.0)
    found = only(await examine(parts_of(app).database), "queues")
    assert (found.state, found.seen) == (
        State.WARN,
        "the queue mail has no worker; 1 run in it will need one later",
    )


async def test_a_paused_queue(app: Redrive) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await app.start_many(send, [None] * 3)
    await app.queues(by="ana").pause("mail", reason="the provider moves")
    found = only(await examine(parts_of(app).database), "queues")
    assert (found.state, found.command) == (State.WARN, "redrive queue resume mail")
    assert found.seen == "ana paused the queue mail (reason: the provider moves); 3 runs waiting in it"


async def test_a_worker_that_was_killed(app: Redrive) -> None:
    """I6, I15."""
    await killed(app)
    report = await examine(parts_of(app).database, limits=IMPATIENT)
    lease = only(report, "leases")
    assert lease.state is State.BAD
    assert lease.seen.startswith("1 step leased to ")
    [silent] = about(report, "workers")
    assert silent.state is State.WARN
    assert " has not reported for " in silent.seen
    assert all(map(is_complete, report.findings))


async def test_a_worker_whose_event_loop_is_blocked_and_the_step_that_blocks_it(app: Redrive) -> None:
    """I6: it still holds the lease, and its heartbeat says what blocks it."""

    @app.task(timeout=10.0)
    async def wedge() -> None: ...

    run, _ = await app.start_many(wedge, [None] * 2)
    store, database = parts_of(app).store, parts_of(app).database
    [claim, _] = await store.leases.claim("default", 2, Holder(7, "blocked", "", 3600.0))
    assert claim.id == run.id
    await store.limits.heartbeat("blocked", "", '["default"]', 10, 2, "running", "shop-1", 42)
    past = {
        table: f"UPDATE redrive.{table} SET attempt_started_at = :now - 90" for table in ("leases", "runs")
    }
    is_postgres = isinstance(database, PostgresDatabase)
    await ask(database, past["leases" if is_postgres else "runs"])
    # While the loop answers, both may still be waiting for a thread.
    assert only(await examine(database), "timeouts").state is State.OK
    assert (await verify(database, leeway=60.0)).sound
    step = BlockingStep(run.id, claim.org, "wedge", "wedge", "wedge", 1)
    await store.limits.note_blocked("blocked", 90.0, step)

    report = await examine(database)
    [worker] = about(report, "workers")
    assert worker.state is State.BAD
    assert worker.seen.startswith(
        "blocked (shop-1, process 42) is blocked: its event loop has not answered for"
    )
    assert worker.seen.endswith(f"; step 'wedge' of run {run.id} blocks it")
    timeout = only(report, "timeouts")
    assert timeout.state is State.BAD
    assert f"run {run.id}: step 'wedge' has been running for " in timeout.seen
    assert all(map(is_complete, report.findings))

    assert timeout.fields["run_id"] == worker.fields["blocking_step"]["run_id"] == run.id
    assert timeout.fields["timeout_seconds"] == 10.0

    verdict = await verify(database, leeway=60.0)
    [violation] = verdict.findings
    assert (violation.invariant, violation.subject) == ("I6", run.id)
    assert "its timeout is 10 s" in violation.text
    assert (await verify(database, leeway=120.0)).sound

    # A blocked worker renews no leases, so they usually end before anyone looks.
    table = "leases" if is_postgres else "runs"
    await ask(database, f"UPDATE redrive.{table} SET leased_until = :now - 30")
    assert only(await examine(database), "timeouts").state is State.BAD
    assert [violation.subject for violation in (await verify(database, leeway=60.0)).findings] == [run.id]
    await ask(database, "UPDATE redrive.workers SET seen_at = :now - 3600")
    assert only(await examine(database), "timeouts").state is State.OK


async def test_a_blocking_step_past_its_timeout_is_reported_without_leeway(app: Redrive) -> None:
    """I6: otherwise the report would say that no step does what it says of the worker."""

    @app.task(timeout=0.001)
    async def wedge() -> None: ...

    run = await app.start(wedge)
    store, database = parts_of(app).store, parts_of(app).database
    [claim] = await store.leases.claim("default", 1, Holder(7, "blocked", "", 3600.0))
    await store.limits.heartbeat("blocked", "", '["default"]', 10, 1, "running", "shop-1", 42)
    await store.limits.note_blocked(
        "blocked", 1.0, BlockingStep(run.id, claim.org, "wedge", "wedge", "wedge", 1)
    )
    await asyncio.sleep(0.01)
    report = await examine(database)
    assert only(report, "workers").code == FindingCode.WORKER_BLOCKED
    assert only(report, "timeouts").code == FindingCode.TIMEOUT_EXCEEDED


async def test_work_that_is_overdue(app: Redrive) -> None:
    """I6."""

    @app.task
    async def send() -> None: ...

    await app.start(send, delay=0.001)
    await asyncio.sleep(0.01)
    found = only(await examine(parts_of(app).database, limits=IMPATIENT), "overdue work")
    assert found.state is State.BAD
    assert found.seen.startswith("1 run overdue, the oldest for ")


async def test_more_than_the_workers_get_done(app: Redrive) -> None:
    begun = asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(3600.0)

    await app.start_many(slow, [None] * 3)
    async with at_work(app, concurrency=1), asyncio.timeout(PATIENCE):
        await begun.wait()
        report = await examine(parts_of(app).database, limits=DoctorLimits(backlog_seconds=0.0))
    assert only(report, "workers").seen.startswith("1 worker running, ")
    found = only(report, "queues")
    assert (found.state, found.command) == (State.WARN, "redrive workers")
    assert found.seen.startswith("the queue default has 2 runs ready (oldest: ")


async def test_a_breaker_that_has_opened(app: Redrive) -> None:
    """I11: what waits for it is told."""
    app.breaker(
        "gateway", BreakerPolicy(window_calls=2, minimum_calls=2, cool_down=3600.0, longest_open=3600.0)
    )

    @app.task(breaker="gateway")
    async def charge() -> None:
        raise TimeoutError("no answer")

    await app.start_many(charge, [None] * 8)
    async with at_work(app, concurrency=2):
        await until(lambda: some(app, "SELECT 1 FROM redrive.runs WHERE place = 'held'"))
        report = await examine(parts_of(app).database)
    found = only(report, "breakers")
    assert (found.state, found.command) == (State.WARN, "redrive breaker view gateway")
    assert found.seen.startswith("the breaker gateway is open; ")
    assert found.seen.endswith("on hold; next probe in 1 h")


@pytest.mark.parametrize("state", ["OPEN", "CLOSED"])
async def test_a_breaker_that_someone_keeps(app: Redrive, state: str) -> None:
    await app.breakers(by="ben").force("pay ments", state, reason="maintenance", seconds=7200.0)
    found = only(await examine(parts_of(app).database), "breakers")
    assert (found.state, found.command) == (State.WARN, "redrive breaker auto 'pay ments'")
    assert (
        found.seen
        == f"ben forced the breaker pay ments {state.lower()} for another 2 h (reason: maintenance)"
    )


async def test_a_breaker_that_is_left_to_itself_again(app: Redrive) -> None:
    await app.breakers(by="ben").force("gateway", "OPEN", reason="maintenance")
    await app.breakers(by="ben").release("gateway")
    found = about(await examine(parts_of(app).database), "breakers")
    assert [(each.state, each.seen) for each in found] == [(State.OK, "1 breaker, none open")]


async def test_dead_letters(app: Redrive) -> None:
    @app.task
    async def charge() -> None:
        raise FinalError("wrong card")

    handles = await app.start_many(charge, [None] * 2)
    async with at_work(app), asyncio.timeout(PATIENCE):
        for each in handles:
            await each.wait()
    found = only(await examine(parts_of(app).database), "dead letters")
    assert (found.state, found.command) == (State.WARN, "redrive dlq groups")
    assert re.fullmatch(r"2 need you, the oldest for \d+ s", found.seen)


async def test_runs_that_wait_for_the_dead_letter_of_an_earlier_one(app: Redrive) -> None:
    @app.task
    async def charge(fails: bool) -> None:
        if fails:
            raise FinalError("wrong card")

    [first, *_] = await app.start_many(charge, [True, False, False], order_key="customer-7")
    await app.start_many(charge, [False, False], order_key="customer-8", queue="mail")
    async with at_work(app), asyncio.timeout(PATIENCE):
        await first.wait()
    [_, found] = about(await examine(parts_of(app).database), "dead letters")
    [letter] = (await app.failures().list()).lines
    assert (found.state, found.command) == (State.WARN, f"redrive dlq view {letter.id}")
    assert found.seen == "2 runs wait for dead letters of earlier runs with the same order key, of 1 key"


async def test_dead_letters_of_all_organizations(app: Redrive) -> None:
    await letters(parts_of(app).database, 2, age=7200.0, org="acme")
    await letters(
        parts_of(app).database, 1, age=86_400.0 * 3, org="other", state="EXHAUSTED", exhausted_at=1.0
    )
    await letters(parts_of(app).database, 1, age=86_400.0 * 9, org="other", next_redrive_at=9e9)
    found = only(await examine(parts_of(app).database), "dead letters")
    assert found.seen == "3 need you (1 without automatic redrives left), the oldest for 3 d"
    assert "has waited longer than 1 d" in found.meaning


async def test_as_many_dead_letters_as_there_may_be(app: Redrive) -> None:
    await letters(parts_of(app).database, 60, org="acme")
    await letters(parts_of(app).database, 60, org="other")
    settings = Settings(dlq_max_size=100)
    assert [
        each.state for each in about(await examine(parts_of(app).database, settings=settings), "dead letters")
    ] == [State.WARN]
    await letters(parts_of(app).database, 40, org="other")
    full, _ = about(await examine(parts_of(app).database, settings=settings), "dead letters")
    assert full.state is State.WARN
    assert "100 live dead letters; dlq_max_size is 100" in full.seen


async def test_a_key_that_is_missing(app: Redrive) -> None:
    @app.task
    async def send(text: str) -> None: ...

    key = new_encryption_key()
    parts_of(app).declared.encryption = Encryption([key])
    rewire(app, parts_of(app).database, parts_of(app).clock, parts_of(app).random)
    await app.start(send, "secret")
    known = only(await examine(parts_of(app).database, keys=[key_id(key)]), "encryption")
    assert known.state is State.OK
    found = only(await examine(parts_of(app).database, keys=()), "encryption")
    assert found.state is State.BAD
    assert f"encrypted with the key {key_id(key)}" in found.seen
    assert key not in str(found)


async def test_tables_of_another_version(app: Redrive) -> None:
    """Work is not looked at then: its tables may be others."""
    database = parts_of(app).database
    await ask(database, "UPDATE redrive.migrations SET version = 13 WHERE version = 16")
    await ask(database, "DELETE FROM redrive.migrations WHERE version > 16")
    report = await examine(parts_of(app).database)
    older = only(report, "schema")
    assert (older.state, older.command) == (State.BAD, "redrive migrate")
    assert older.seen.startswith("the tables are at version 13; this Redrive needs ")
    assert not about(report, "queues")
    await ask(parts_of(app).database, "INSERT INTO redrive.migrations VALUES (9999, 'future', 0)")
    newer = only(await examine(parts_of(app).database), "schema")
    assert newer.state is State.BAD
    assert "version 9999" in newer.seen
    assert "Install the newer Redrive" in newer.advice


async def test_it_only_reads(app: Redrive) -> None:
    from tests.store.build import tables

    await killed(app)
    before = await tables(parts_of(app).database)
    await examine(parts_of(app).database, keys=(), limits=IMPATIENT)
    assert await tables(parts_of(app).database) == before


def test_a_report_in_words() -> None:
    from redrive.doctor.work import judge_leases
    from redrive.store.inspection import Expired

    report = HealthReport("redrive.db", (judge_leases([Expired("w1", 3, 90.0)]), judge_leases([])))
    assert not report.is_well()
    first, *_, last = str(report).splitlines()
    assert first.startswith("bad     leases: 3 steps leased to w1; the oldest lease expired 1 min ago")
    assert last == "ok      leases: no expired leases"


async def test_streams_that_are_not_read(app: Redrive) -> None:
    database, store = parts_of(app).database, parts_of(app).store
    assert [found.code for found in about(await examine(database), "streams")] == [FindingCode.NO_STREAM]
    now = parts_of(app).clock.now()
    reports: dict[str, dict[str, Any]] = {
        "well": {},
        "behind": {"oldest_at": now - 3_700.0, "lag": 12_000},
        "failing": {"pending": None, "last_error": fact("redis_loading").encode(), "error_at": now},
        "paused": {},
    }
    for name, changes in reports.items():
        stream = StreamName("default", name)
        await store.streams.ensure(stream)
        await store.streams.report(stream, StreamReport(**{**QUIET, **changes}))
    await app.streams(by="ana").pause("paused")
    await store.streams.add_gap(StreamName("default", "well"), Gap(1, "1-0", "9-0", now))
    found = {each.code: each for each in about(await examine(database), "streams")}
    assert found[FindingCode.STREAMS_READ].fields == {"streams": 1}
    seen = [each.seen for each in found.values() if each.state is State.WARN]
    assert sorted(seen) == [
        "ana paused the stream paused of default",
        "the stream behind of default is behind: its oldest entry has waited for 1 h, and 12,000 are not "
        "read yet",
        "the stream failing of default can't be read: Redis is starting and still loads its data. Reading "
        "continues afterwards",
    ]
    assert found[FindingCode.STREAM_GAPS].seen.startswith("the stream well of default has 1 gap")


async def test_a_stream_without_a_consumer(app: Redrive) -> None:
    store, stream = parts_of(app).store, StreamName("default", "orders")
    await store.streams.ensure(stream)
    await store.streams.report(stream, StreamReport(**QUIET))
    await ask(parts_of(app).database, "UPDATE redrive.streams SET reported_at = reported_at - 600")
    found = only(await examine(parts_of(app).database), "streams")
    assert (found.state, found.command) == (State.WARN, "redrive stream consume MODULE:ATTRIBUTE")
    assert found.seen == "no consumer has reported on the stream orders of default for 10 min"
