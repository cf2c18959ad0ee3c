"""A tenant's database: row-level security on PostgreSQL, limits on both databases (W13, I8).

test_row_level_security.py tests the policies themselves.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import asyncpg
import pytest
from tests.cases import loop_over
from tests.engine.workbench import new_app, working
from tests.servers import PostgresServer
from tests.store.build import adhoc, ask, enqueued, value
from tests.store.test_row_level_security import drop_role

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.errors import (
    FinalError,
    InvalidValueError,
    NotFoundError,
    StatementTimeoutError,
    StoreError,
    StoreUnavailableError,
)
from redrive.failures.service import Failures
from redrive.parts import parts_of, rewire
from redrive.store import postgres
from redrive.store.database import Database, Session
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_tenant import CONNECTIONS, MAX_PER_CALLER, PostgresTenant
from redrive.store.row_level_security import tenant_role
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store
from redrive.verify import verify

MINE, THEIRS = "acme", "globex"
SECONDS = 10.0
SHORT = 0.2
FOREVER = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS number FROM n"
INSERT = adhoc("INSERT INTO redrive.definitions VALUES (:name, '', '', 0)")
ORGS = adhoc("SELECT DISTINCT org FROM redrive.runs")


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
async def base(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A migrated database with row-level security; `pooled` behaves as behind a transaction pooler."""
    if request.param == "sqlite":
        sqlite = SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)
        await sqlite.migrate()
        await sqlite.enable_row_level_security()
        yield sqlite
        await sqlite.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    async with walled(server, pooler=request.param == "pooled") as database:
        yield database


@pytest.fixture
async def postgres_base(live_postgres: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    async with walled(live_postgres) as database:
        yield database


@asynccontextmanager
async def walled(server: PostgresServer, *, pooler: bool = False) -> AsyncIterator[PostgresDatabase]:
    schema = f"test_{uuid.uuid4().hex}"
    database = PostgresDatabase(server.url, schema=schema, pooler=pooler)
    await database.migrate()
    await database.enable_row_level_security()
    yield database
    await database.close()
    admin = await asyncpg.connect(server.url)
    await admin.execute(f"DROP SCHEMA {schema} CASCADE")
    await drop_role(admin, tenant_role(schema))
    await admin.close()


# Everything that requests of an organization do


class OneTenant:
    """A database that sends all statements through the session of one organization."""

    in_memory = False

    def __init__(self, base: Database, org: str) -> None:
        session = base.tenant(org, SECONDS)
        self.fetch, self.fetch_many, self.transaction = session.fetch, session.fetch_many, session.transaction
        self.migrate, self.hint, self.listen, self.close = base.migrate, base.hint, base.listen, base.close
        self.another, self.tenant = base.another, base.tenant
        self.enable_row_level_security = base.enable_row_level_security
        self.serve_only, self.require_isolated = base.serve_only, base.require_isolated
        self.wait_for_cancelled = base.wait_for_cancelled


class World:
    """Workers on the whole database, and requests of one organization."""

    def __init__(self, base: Database) -> None:
        self.base = base
        self.back = self.app(base)
        self.front = self.app(OneTenant(base, MINE))
        self.fails = True

    def app(self, database: Database) -> Redrive:
        app = new_app()

        @app.task(name="charge")
        async def charge(number: int) -> int:
            if self.fails:
                raise FinalError(f"card {number} was declined")
            return number

        @app.task(name="send")
        async def send(number: int) -> int:
            return number

        app.workflow("order", [charge, send])
        rewire(app, database, SYSTEM_CLOCK, SystemRandom())
        return app

    async def failures(self, org: str = MINE) -> Failures:
        return self.front.failures(org=org, by="ana")

    async def fail(self, number: int = 1, org: str = MINE) -> list[str]:
        """Let runs fail and return their letters. The tenant's own runs start through its session."""
        app = self.front if org == MINE else self.back
        runs = [each.id for each in await app.start_many("order", range(number), org=org)]
        await self.work(runs, org)
        return [
            letter.id
            for run in runs
            for letter in await parts_of(self.back).store.dead_letters.of_run(run, org)
        ]

    async def work(self, runs: list[str], org: str = MINE) -> None:
        """Work until these runs have ended."""
        async with working(self.back):
            for run in runs:
                await self.back.run(run, org).wait(10)

    async def sound(self) -> None:
        verdict = await verify(self.base)
        assert verdict.sound, str(verdict)
        audit = await (await self.failures()).audit.verify()
        assert audit.sound, str(audit)


@pytest.fixture
async def world(base: Database) -> World:
    return World(base)


async def test_starting_looking_and_cancelling(world: World) -> None:
    run = await world.front.start("order", 1, org=MINE, key="order-7", tags=["vip"])
    again = await world.front.start("order", 1, org=MINE, key="order-7", tags=["vip"])
    both = await world.front.start_many("order", [2, 3], org=MINE, keys=["a", "b"])
    foreign = await world.back.start("order", 1, org=THEIRS)

    assert again.id == run.id
    assert await parts_of(world.front).store_of(MINE).runs.count_by_state(MINE) == {"PENDING": 3}
    assert await both[0].cancel(by="ana") == "cancelled"
    world.fails = False
    await world.work([run.id, both[1].id])
    await world.work([foreign.id], THEIRS)

    assert await world.front.run(run.id, MINE).result() == 1
    history = await world.front.run(run.id, MINE).history()
    assert [step.state for step in history.steps] == ["SUCCESS", "SUCCESS"]
    assert await parts_of(world.front).store_of(MINE).runs.count_by_state(MINE) == {
        "SUCCESS": 2,
        "CANCELLED": 1,
    }
    assert await parts_of(world.front).store_of(THEIRS).runs.count_by_state(THEIRS) == (
        {"SUCCESS": 1} if on_sqlite(world) else {}
    )
    await world.sound()


def on_sqlite(world: World) -> bool:
    return isinstance(world.base, SqliteDatabase)


async def test_triage(world: World) -> None:
    first, second, third = await world.fail(3)
    await world.fail(2, THEIRS)
    letters = await world.failures()

    assert {line.id for line in (await letters.list("is:open")).lines} == {first, second, third}
    assert (await letters.count("is:open")).number == 3
    assert (await letters.statistics()).by_state == {"OPEN": 3}
    assert await letters.assign(first, "bob") == await letters.tag([first, second], add=["billing"]) - 1 == 1
    assert (await letters.note(first, "asked the bank")).author == "ana"
    assert await letters.link(first, second)
    assert [each.id for each in await letters.dependencies(first)] == [second]
    assert await letters.unlink(first, second)
    assert [each.body for each in await letters.notes(first)] == ["asked the bank"]
    assert await letters.resolve(first, "paid") == await letters.ignore(second) == 1
    assert await letters.reopen(second, "not quite") == await letters.archive([second, third]) - 1 == 1
    assert (await letters.statistics()).by_state == {"RESOLVED": 1, "ARCHIVED": 2}
    await world.sound()


async def test_groups_verdict_and_payload(world: World) -> None:
    letter, *_ = await world.fail(2)
    failures = await world.failures()
    [line] = (await failures.groups.list()).lines
    fingerprint = line.group.fingerprint

    assert (await failures.groups.view(fingerprint)).group.occurrences == 2
    assert (await failures.verdict(letter)).why
    assert await failures.reveal(letter, reason="the bank asks") == 0
    assert (await failures.groups.acknowledge(fingerprint)).state == "ACKNOWLEDGED"
    assert (await failures.groups.ignore(fingerprint, "known")).state == "IGNORED"
    assert (await failures.groups.reopen(fingerprint, "again")).state == "OPEN"
    assert (await failures.groups.resolve(fingerprint, "fixed", letters=True)).letters == 2
    assert len(await failures.audit.about(letter)) >= 3
    assert (await failures.audit.list(action="dead_letter.revealed")).entries
    await world.sound()


async def test_replaying_and_retrying(world: World) -> None:
    replayed, retried = await world.fail(2)
    failures = await world.failures()
    runs = [(await failures.view(each)).run_id for each in (replayed, retried)]
    world.fails = False

    replay = await failures.replay(replayed, payload=7, reason="another card")
    await failures.replay_run(runs[1])
    await world.work(runs)

    assert (await failures.replays.view(replay.id)).state == "SUCCEEDED"
    assert [each.id for each in await failures.replays.list(replayed)] == [replay.id]
    assert await world.front.run(runs[0], MINE).result() == 7
    assert (await failures.view(retried)).state == "RESOLVED"
    await world.sound()


async def test_operations(world: World) -> None:
    await world.fail(3)
    operations = (await world.failures()).plans

    plan = await operations.create(query="is:open", reason="the bank is back")
    assert plan.will_run == 3
    assert (await operations.start(plan.operation_id)).state == "RUNNING"
    assert (await operations.pause(plan.operation_id)).state == "PAUSED"
    assert (await operations.resume(plan.operation_id)).state == "RUNNING"
    assert (await operations.cancel(plan.operation_id)).state == "CANCELLED"
    assert (await operations.report(plan.operation_id)).items["CANCELLED"] == 3
    assert len((await operations.items(plan.operation_id)).items) == 3
    assert [each.id for each in (await operations.list()).operations] == [plan.operation_id]
    await world.sound()


async def test_a_failed_run_enters_the_dead_letters(world: World) -> None:
    """M5, M6: the strategy kept it out, and an operator adds it."""
    await (await world.failures()).strategies.change("manual", reason="too many")
    assert await world.fail() == []
    [[run_id]] = await ask(world.base, "SELECT id FROM redrive.runs")
    failures = await world.failures()

    letter = await failures.add(run_id)

    assert (await failures.view(letter)).run_id == run_id
    await world.sound()


async def test_only_the_home_org_changes_queues_and_breakers(world: World) -> None:
    home = world.app(OneTenant(world.base, "default"))
    await home.queues(by="ana").pause("default", reason="upgrade")
    await home.breakers(by="ana").force("bank", "open", reason="down")

    assert [each.name for each in await world.front.queues().list() if each.paused_at] == ["default"]
    assert [each.row.name for each in await parts_of(world.front).breakers.all()] == ["bank"]
    await home.queues(by="ana").resume("default")
    await home.breakers(by="ana").release("bank")
    if not on_sqlite(world):
        with pytest.raises(StoreError, match="row-level security"):
            await parts_of(world.front).store.limits.pause("default", "eve", "")
    assert not (await world.front.queues().list())[0].paused_at


@pytest.mark.parametrize("base", ["postgres", "pooled"], indirect=True)  # SQLite has no row-level security
async def test_a_failures_service_of_another_org_finds_no_rows_with_row_level_security_i8(
    world: World,
) -> None:
    """Even if a program uses the wrong organization: the statements name the rows of the other one."""
    [theirs] = await world.fail(1, THEIRS)
    run_id = (await world.back.failures(org=THEIRS).view(theirs)).run_id
    failures = await world.failures(THEIRS)

    assert not (await failures.list()).lines
    assert not (await failures.groups.list()).lines
    assert not (await failures.audit.list()).entries
    for look in (failures.view(theirs), failures.verdict(theirs), world.front.run(run_id, THEIRS).view()):
        with pytest.raises(NotFoundError):
            await look
    with pytest.raises(StoreError, match="row-level security"):
        await world.front.start("order", 1, org=THEIRS)
    assert await parts_of(world.back).store_of(THEIRS).runs.count_by_state(THEIRS) == {"DLQ_PENDING": 1}


# One connection for several organizations


@pytest.fixture
async def narrow(
    live_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """All tenants share one connection; each organization has a run."""
    monkeypatch.setattr(postgres, "CONNECTIONS", 1)
    async with walled(live_postgres) as database:
        for org in (MINE, THEIRS):
            await enqueued(Store(database), org=org)
        yield database


async def seen(session: Session) -> set[str]:
    return {row[0] for row in await session.fetch(ORGS, {})}


async def seen_in_a_transaction(session: Session) -> set[str]:
    async with session.transaction() as inner:
        return {row[0] for row in await inner.fetch(ORGS, {})}


async def seen_before_a_rollback(session: Session) -> set[str]:
    found: set[str] = set()
    with pytest.raises(RuntimeError):
        async with session.transaction() as inner:
            found = {row[0] for row in await inner.fetch(ORGS, {})}
            raise RuntimeError
    return found


async def seen_before_an_error(session: Session) -> set[str]:
    found = await seen(session)
    with pytest.raises(StoreError, match="division by zero"):
        await ask(session, "SELECT 1 / 0")
    return found


LOOKS = (seen, seen_in_a_transaction, seen_before_a_rollback, seen_before_an_error)


async def test_orgs_on_one_connection_never_see_rows_of_each_other_i8(narrow: PostgresDatabase) -> None:
    random = Random(7)
    views = {org: narrow.tenant(org, SECONDS) for org in (MINE, THEIRS)}
    wanted = [(random.choice([MINE, THEIRS]), random.choice(LOOKS)) for _ in range(400)]

    found = await asyncio.gather(*[look(views[org]) for org, look in wanted])

    assert found == [{org} for org, _ in wanted]
    processes = [await value(view, "SELECT pg_backend_pid()") for view in views.values()]
    assert processes[0] == processes[1]


@pytest.mark.parametrize("look", [seen, seen_in_a_transaction])
async def test_after_a_cancellation_the_next_request_sees_its_own_rows(
    narrow: PostgresDatabase, look: Callable[[Session], Awaitable[set[str]]]
) -> None:
    mine, theirs = narrow.tenant(MINE, SECONDS), narrow.tenant(THEIRS, SECONDS)
    cancelled = 0
    for turns in range(60):
        assert await seen(mine) == {MINE}
        task = asyncio.ensure_future(look(theirs))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        cancelled += task.cancelled()
        assert await look(mine) == {MINE}
    assert cancelled > 3


async def test_the_same_org_again_costs_no_round_trip(
    narrow: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood: list[str] = []
    stand = PostgresTenant._set_tenant

    async def counted(self: PostgresTenant, connection: Any) -> None:
        stood.append(self._tenant_settings.org)
        await stand(self, connection)

    monkeypatch.setattr(PostgresTenant, "_set_tenant", counted)
    for org in (MINE, MINE, MINE, THEIRS, THEIRS, MINE):
        assert await seen_before_a_rollback(narrow.tenant(org, SECONDS)) == {org}

    assert stood == [MINE, THEIRS, MINE]


async def test_without_the_role_no_request_is_served(postgres_base: PostgresDatabase) -> None:
    """A pooler that the operator did not configure may drop the role."""
    postgres_base._of_tenants = postgres_base._connections

    with pytest.raises(StoreError, match="did not switch to the role"):
        await seen(postgres_base.tenant(MINE, SECONDS))


async def test_without_row_level_security_a_tenant_has_no_access(postgres_database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match="redrive_tenant"):
        await seen(postgres_database.tenant(MINE, SECONDS))


# Time limits


async def test_a_slow_query_is_stopped_and_the_connection_stays_usable(base: Database) -> None:
    view = base.tenant(MINE, SHORT)
    for _ in range(2):
        with pytest.raises(
            StatementTimeoutError, match=r"longer than 0.2 s and was cancelled; narrow it"
        ) as raised:
            await ask(view, FOREVER)
        assert raised.value.seconds == SHORT
        assert not isinstance(raised.value, StoreUnavailableError)
        assert await value(view, "SELECT 1") == 1


async def test_earlier_writes_are_rolled_back(base: Database) -> None:
    view = base.tenant(MINE, SHORT)
    with pytest.raises(StatementTimeoutError):
        async with view.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            await ask(session, FOREVER)
    with pytest.raises(StatementTimeoutError):
        await ask(
            view, f"INSERT INTO redrive.definitions SELECT 'b', '', '', number FROM ({FOREVER}) AS slow"
        )
    async with view.transaction() as session:
        await session.fetch(INSERT, {"name": "c"})

    assert await ask(base, "SELECT digest FROM redrive.definitions") == [("c",)]


async def test_each_limit_is_its_own(base: Database) -> None:
    patient, hasty = base.tenant(MINE, SECONDS), base.tenant(MINE, SHORT)
    with pytest.raises(StatementTimeoutError):
        await ask(hasty, FOREVER)
    assert await value(patient, COUNTING) == 2_000_000
    with pytest.raises(StatementTimeoutError):
        await ask(hasty, FOREVER)


COUNTING = FOREVER.replace("FROM n)", "FROM n WHERE i < 2000000)")
"""Runs for a while, and ends."""

LONG = FOREVER.replace("FROM n)", "FROM n WHERE i < 40000000)")
"""Takes much longer than SHORT on any machine, and ends, so the test fails if no limit stops it."""


async def test_a_statement_that_would_end_too_late_is_stopped(base: Database) -> None:
    with pytest.raises(StatementTimeoutError):
        await ask(base.tenant(MINE, SHORT), LONG)


async def test_workers_have_no_limit(postgres_base: PostgresDatabase) -> None:
    with pytest.raises(StatementTimeoutError):
        await ask(postgres_base.tenant(MINE, SHORT), FOREVER)

    assert await value(postgres_base, "SELECT current_setting('statement_timeout')") == "0"
    assert (
        await value(postgres_base.tenant(MINE, 1.5), "SELECT current_setting('statement_timeout')")
        == "1500ms"
    )


async def test_a_cancellation_by_the_caller_is_not_a_timeout(postgres_base: PostgresDatabase) -> None:
    view = postgres_base.tenant(MINE, SECONDS)
    process = await value(view, "SELECT pg_backend_pid()")
    slow = asyncio.create_task(ask(view, FOREVER))
    while not slow.done():
        text = (
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
            "WHERE pid = :process AND query LIKE 'WITH RECURSIVE%' AND state = 'active'"
        )
        await ask(postgres_base, text, process=process)
        await asyncio.wait({slow}, timeout=0.01)

    with pytest.raises(StoreUnavailableError, match="user request"):
        await slow


async def test_a_slow_request_does_not_hold_up_the_workers(base: Database) -> None:
    await base.fetch(INSERT, {"name": "a connection"})
    slow = asyncio.create_task(ask(base.tenant(MINE, 1.0), FOREVER))
    await asyncio.sleep(0)
    written = 0
    while not slow.done():
        await base.fetch(INSERT, {"name": f"{written}"})
        written += not slow.done()

    assert written
    with pytest.raises(StatementTimeoutError):
        await slow


@pytest.mark.parametrize("pooler", [False, True])
async def test_one_org_cannot_take_all_connections(live_postgres: PostgresServer, pooler: bool) -> None:
    async with walled(live_postgres, pooler=pooler) as base:
        mine, theirs = base.tenant(MINE, SECONDS), base.tenant(THEIRS, SECONDS)
        busy = "SELECT 1 AS waited_long FROM (SELECT pg_advisory_xact_lock_shared(4711)) AS locked"
        held = "query LIKE '%waited_long%' AND wait_event = 'advisory'"
        found = f"SELECT count(*) FROM pg_stat_activity WHERE {held}"
        blocker = await asyncpg.connect(live_postgres.url)
        await blocker.execute("SELECT pg_advisory_lock(4711)")
        waiting = [asyncio.create_task(ask(mine, busy)) for _ in range(2 * CONNECTIONS)]
        async with asyncio.timeout(SECONDS):
            while await blocker.fetchval(found) < MAX_PER_CALLER:
                await asyncio.sleep(0)
            assert await value(theirs, "SELECT 1") == 1
        assert not any(task.done() for task in waiting)
        await blocker.close()
        await asyncio.gather(*waiting)


async def test_orgs_take_turns_on_the_one_connection_of_sqlite(tmp_path: Path) -> None:
    """This holds however much one of them has requested before."""
    base = SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)
    await base.migrate()
    mine, theirs = base.tenant(MINE, SECONDS), base.tenant(THEIRS, SECONDS)
    many = [asyncio.create_task(value(mine, "SELECT 1")) for _ in range(50)]
    await asyncio.sleep(0)

    assert await value(theirs, "SELECT 1") == 1

    assert sum(task.done() for task in many) < 10
    assert await asyncio.gather(*many) == [1] * 50
    await base.close()


async def test_waiting_for_a_lock_has_an_end_as_well(base: Database) -> None:
    async with base.transaction() as session:
        await session.fetch(INSERT, {"name": "a"})
        with pytest.raises((StatementTimeoutError, StoreUnavailableError)):
            await base.tenant(MINE, SHORT).fetch(INSERT, {"name": "a"})

    assert await ask(base, "SELECT digest FROM redrive.definitions") == [("a",)]


# Other methods of a database


@loop_over(
    ("org", "seconds"),
    [
        *[(org, 1.0) for org in ("", "a\0b", "\udc80", None)],
        *[(MINE, seconds) for seconds in (0, -1.0, 60.1, float("nan"), True, "5")],
    ],
)
async def test_invalid_orgs_and_limits_are_rejected(base: Database, org: Any, seconds: Any) -> None:
    with pytest.raises(InvalidValueError):
        base.tenant(org, seconds)


async def test_names_that_need_care(base: Database) -> None:
    orgs = ("o'brien", "größe", 'a"b', "a; RESET ROLE", "%s", "\\", "日本")
    for org in orgs:
        await enqueued(Store(base), org=org)
    for org in orgs:
        expected = set(orgs) if isinstance(base, SqliteDatabase) else {org}
        assert await seen(base.tenant(org, SECONDS)) == expected


async def test_hints_reach_listeners_of_the_database(base: Database) -> None:
    heard: list[str] = []
    store = Store(base).tenant(MINE, SECONDS)
    async with base.listen(heard.append):
        await store.hint(["mail"])

        assert heard.count("mail") == 1


async def test_closing_closes_the_views_and_using_them_opens_them_again(base: Database) -> None:
    view = base.tenant(MINE, SECONDS)
    assert await value(view, "SELECT 1") == 1

    await base.close()
    await base.close()

    assert await value(view, "SELECT 1") == 1
    other = base.another()
    assert await value(other.tenant(MINE, 1.0), "SELECT 1") == 1
    await other.close()


async def test_a_closed_database_leaves_no_connection_behind(
    live_postgres: PostgresServer, postgres_base: PostgresDatabase
) -> None:
    process = await value(postgres_base.tenant(MINE, SECONDS), "SELECT pg_backend_pid()")
    await postgres_base.close()

    other = PostgresDatabase(live_postgres.url, schema=postgres_base.schema)
    async with asyncio.timeout(60):
        while await ask(other, "SELECT 1 FROM pg_stat_activity WHERE pid = :process", process=process):
            await asyncio.sleep(0.01)
    await other.close()


async def test_in_memory_there_is_only_one() -> None:
    database = SqliteDatabase(":memory:")

    assert database.tenant(MINE, SECONDS) is database
    await database.close()
