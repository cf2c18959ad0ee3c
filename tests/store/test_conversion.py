"""Converting a database of version 0.1 to the baseline keeps all of its work and locks out old workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.engine.workbench import PATIENCE
from tests.servers import PostgresServer
from tests.store.build import ORG, ask, completed, enqueued, holder, places, tables, value
from tests.store.catalog import catalog_of, forget_triggers_of_tests
from tests.store.rows import run_row
from tests.store.version_0_1 import NEWEST, create_tables, insert, old_statements, put_work, work

from redrive.app import Redrive
from redrive.errors import ConflictError, SchemaError, StoreError
from redrive.settings import Settings
from redrive.store import migration
from redrive.store.automatic_redrive import Redrives
from redrive.store.database import Database, Session
from redrive.store.migration import Migration, conversion, migrations
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Record
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import Statement
from redrive.store.store import Store
from redrive.verify import verify

pytestmark = pytest.mark.usefixtures("real_migrations")

RENAMED = {"lonely_losses": "isolated_crashes", "alone": "isolation", "lease_expires_at": "leased_until"}
"""Columns of runs that have new names."""
CURRENT = [(each.version, each.name) for each in migrations()]
"""The ledger of an up-to-date database."""
ELSEWHERE = {
    "dead_letters": {"stack", "public_message", "explanation", "config", "policy"},
    "run_events": {"detail"},
}
"""Columns that other tests compare."""
"""Columns of dead letters that the attempt and the settings have now."""


@pytest.fixture
async def old(fresh: Database) -> Database:
    """A database of version 0.1 with work in every place and state, and drained workers."""
    await create_tables(fresh)
    await put_work(fresh)
    return fresh


@pytest.fixture
async def app(old: Database, request: pytest.FixtureRequest) -> AsyncIterator[Redrive]:
    """An application of this version that has not opened the old database yet."""
    if isinstance(old, PostgresDatabase):
        url, settings = request.getfixturevalue("live_postgres").url, Settings(schema=old.schema)
    else:
        assert isinstance(old, SqliteDatabase)
        url, settings = f"sqlite:///{old.path}", Settings()
    app = Redrive(url, settings=settings, log=False)
    yield app
    await app.close()


async def ledger(database: Database) -> list[tuple[Any, ...]]:
    return await ask(database, "SELECT version, name FROM redrive.migrations ORDER BY version")


async def content(database: Database, *, converted: bool = False) -> dict[str, list[str]]:
    """Return all rows, reduced to the columns of 0.1 that both versions have."""
    found: dict[str, list[str]] = {}
    for table, rows in work().items():
        names = [name for name in rows[0] if name not in ELSEWHERE.get(table, ())]
        if converted and table == "runs":
            names = [RENAMED.get(name, name) for name in names]
        listed = await ask(database, f"SELECT {', '.join(names)} FROM redrive.{table}")
        found[table] = sorted(map(repr, listed))
    return found


# The conversion loses nothing


async def test_all_work_is_there_afterwards_i1(old: Database) -> None:
    before = await content(old)

    await old.migrate()

    assert await ledger(old) == CURRENT
    assert await content(old, converted=True) == before
    keys = await ask(old, "SELECT sort_key, submitted_at - 3600.0 * priority FROM redrive.runs")
    assert [key for key, _ in keys] == [expected for _, expected in keys]


async def test_a_letter_finds_its_settings_and_its_error(old: Database) -> None:
    await old.migrate()

    store = Store(old)
    for row in work()["dead_letters"]:
        letter = await store.dead_letters.get(row["id"], ORG)
        assert (letter.config, letter.policy) == (json.loads(row["config"]), json.loads(row["policy"]))
        assert (letter.stack, letter.decision.text) == (row["stack"], row["explanation"])


async def test_every_promise_is_kept_afterwards(old: Database) -> None:
    await old.migrate()

    verdict = await verify(old)

    assert verdict.sound, str(verdict)
    assert {name for name, rows in verdict.checked.items() if not rows} == {"I1", "I2"}, "only witnesses know"


@pytest.mark.parametrize("version", range(NEWEST + 1, 16))
async def test_each_version_before_the_baseline_is_converted(old: Database, version: int) -> None:
    before = await content(old)
    await create_tables(old, version)
    assert (await ledger(old))[-1][0] == version

    await old.migrate()

    assert await ledger(old) == CURRENT
    assert await content(old, converted=True) == before


PLACES: dict[str, dict[str, Any]] = {
    "ready": {"state": "RUNNING", "step_state": "RETRYING"},
    "waiting": {"state": "RUNNING", "step_state": "RETRYING", "due_at": 9e9},
    "held": {"held_by": "breaker:mail"},
    "alone": {"state": "RUNNING", "isolation": 1},
    "leased": {"state": "RUNNING", "step_state": "RUNNING", "leased_until": 9e9, "slots": '["mail"]'},
    "ended": {"state": "SUCCESS", "step_state": "SUCCESS", "ended_at": 7.0, "result": '"done"'},
}


async def test_runs_are_as_they_were_after_the_split_i1(fresh: Database) -> None:
    """In every place, with a value in every column, and with as few values as possible."""
    await create_tables(fresh)
    for number, (place, changes) in enumerate(PLACES.items()):
        given = {"idempotency_key": f"k{number}", "request_hash": "h", "correlation_id": "c", "tags": '["t"]'}
        counts = ("failures", "rate_limit_waits", "holds", "losses", "isolated_crashes")
        spent = {
            **dict.fromkeys(counts, 3 + number),
            **dict.fromkeys(("attempt", "epoch", "token", "step_index", "priority"), 4 + number),
            **dict.fromkeys(("replays", "redrives", "step_only", "has_letter"), 1),
            **dict.fromkeys(("previous_delay", "first_failed_at", "last_failed_at"), 5.5),
            **dict.fromkeys(("attempt_started_at", "started_at", "cancel_requested_at"), 6.5),
            **dict.fromkeys(("error_class", "worker", "code_version", "policy_override"), place),
            **dict.fromkeys(("progress", "step_input", "metadata"), f'"{place}"'),
        }
        for row in (run_row(place=place, **changes), run_row(place=place, **{**given, **spent, **changes})):
            await insert(fresh, "runs", as_0_1(row))
    names = list(work()["runs"][0])
    before = await ask(fresh, f"SELECT {', '.join(names)} FROM redrive.runs ORDER BY id")

    await fresh.migrate()

    now = [RENAMED.get(name, name) for name in names]
    assert await ask(fresh, f"SELECT {', '.join(now)} FROM redrive.runs ORDER BY id") == before
    assert len(before) == 2 * len(PLACES)
    store = Store(fresh)
    assert len(await store.leases.claim("default", 10, holder())) == 2
    assert await store.limits.count_held("breaker:mail") == 2
    with pytest.raises(ConflictError):
        await enqueued(store, idempotency_key="k0", request_hash="other")


def as_0_1(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a run with its old columns, and an id like the engine's."""
    former = {now: name for name, now in RENAMED.items()}
    whole = {row["id"]: row["id"].ljust(32, "0")}
    return {
        former.get(name, name): whole.get(found, found) for name, found in row.items() if name != "sort_key"
    }


# Work continues


async def test_runs_are_claimed_completed_promoted_and_taken_over(old: Database) -> None:
    await old.migrate()
    store = Store(old)
    await ask(old, "DELETE FROM redrive.queues")
    await ask(old, "UPDATE redrive.runs SET leased_until = 1 WHERE place = 'leased'")
    await ask(old, "UPDATE redrive.runs SET due_at = 1 WHERE place = 'waiting'")

    ready = [run for queue in ("default", "paused") for run in await store.leases.claim(queue, 9, holder())]
    recorded = await store.records.record([Record(completed(claim)) for claim in ready])
    [alone] = await store.leases.claim_alone("fragile", holder())
    [lost] = await store.leases.reclaim(holder().token, 60.0, 9)
    promoted = await store.leases.promote(9)

    assert sorted(places(recorded).values()) == ["ended", "ended"]
    assert (alone.workflow, lost.workflow) == ("fragile", "alone_at_work")
    assert promoted == ["default"] * 4
    assert len(await store.leases.claim("default", 9, holder())) == 4
    assert await store.limits.count_held("breaker:mail") == 1


async def test_letters_are_replayed(old: Database, app: Redrive) -> None:
    """Including the letter whose replay 0.1 had started."""
    letters = work()["dead_letters"]
    started = [row["id"] for row in letters if row["state"] == "REPLAYING"]
    failed = [row["id"] for row in letters if row["state"] == "OPEN" and row["task"] == "final"]

    @app.task
    async def final() -> str:
        return "done"

    @app.task
    async def mended() -> str:
        return "done"

    for letter_id in failed:
        await app.failures().replay(letter_id, reason="the code is fixed")
    worker = app.worker(poll_seconds=0.02)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE):
        while {await state_of(old, letter_id) for letter_id in [*started, *failed]} != {"RESOLVED"}:
            await asyncio.sleep(0.02)
        worker.stop()
        await working

    assert (len(started), len(failed)) == (1, 3)
    verdict = await verify(old)
    assert verdict.sound, str(verdict)


async def state_of(database: Database, letter_id: str) -> str:
    return str(await value(database, "SELECT state FROM redrive.dead_letters WHERE id = :id", id=letter_id))


# The tables equal those of the baseline


async def test_the_tables_equal_those_of_a_new_database(
    old: Database, request: pytest.FixtureRequest
) -> None:
    await old.migrate()
    new = database_beside(old, request)
    await new.migrate()

    converted, created = await catalog_of(old), await catalog_of(new)

    assert len(created["columns"]) > 300
    for part, rows in created.items():
        assert converted[part] == rows, part
    await new.close()


def database_beside(database: Database, request: pytest.FixtureRequest) -> Database:
    if not isinstance(database, PostgresDatabase):
        return SqliteDatabase(":memory:")
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schemas = request.getfixturevalue("schemas")
    name = f"{database.schema}_new"
    request.addfinalizer(lambda: schemas.drop(name))
    return PostgresDatabase(server.url, schema=name)


async def test_a_column_more_is_noticed(old: Database) -> None:
    """The control of the test above."""
    await old.migrate()
    before = await catalog_of(old)

    await ask(old, "ALTER TABLE redrive.steps ADD COLUMN color text")

    assert await catalog_of(old) != before


# Only with drained workers


async def beat(database: Database, name: str, state: str = "running", age: float = 0.0) -> None:
    """Insert a heartbeat of a worker, `age` seconds old."""
    await ask(database, "DELETE FROM redrive.workers WHERE id = :id", id=name)
    await ask(
        database,
        """INSERT INTO redrive.workers (id, started_at, seen_at, code_version, queues, concurrency, in_flight,
            state, host, process)
        VALUES (:id, 0.0, :now - CAST(:age AS double precision), 'v1', '[]', 4, 1, :state, 'shop-1', 7)""",
        id=name,
        age=age,
        state=state,
    )


async def test_it_is_refused_while_a_worker_is_alive(old: Database) -> None:
    await beat(old, "busy", age=50.0)
    await beat(old, "silent", age=70.0)
    await beat(old, "drained", "stopped")
    before = await content(old), await catalog_of(old), await ledger(old)

    with pytest.raises(SchemaError, match=r"1 process is still .*: worker busy \(process 7 on shop-1\)\. .*"):
        await old.migrate()

    assert (await content(old), await catalog_of(old), await ledger(old)) == before
    await beat(old, "busy", "stopped")
    await old.migrate()
    assert await ledger(old) == CURRENT


async def test_it_is_refused_while_a_processor_is_alive(old: Database) -> None:
    redrives = Redrives(old)
    await redrives.heartbeat("nightly", "", "running", 100.0, 0)
    await ask(old, "UPDATE redrive.processors SET seen_at = :now - 250 WHERE id = 'nightly'")

    with pytest.raises(SchemaError, match=r"1 process is still .*: processor nightly\."):
        await old.migrate()

    await ask(old, "UPDATE redrive.processors SET seen_at = :now - 350 WHERE id = 'nightly'")
    await old.migrate()


async def test_the_error_names_five_of_many(old: Database) -> None:
    for number in range(7):
        await beat(old, f"w{number}")

    with pytest.raises(
        SchemaError, match=r"7 processes are .*worker w4 \(process 7 on shop-1\), 2 more\. Noth"
    ):
        await old.migrate()


async def test_an_application_is_refused_in_the_same_way(old: Database, app: Redrive) -> None:
    await beat(old, "busy")
    before = await content(old)

    with pytest.raises(SchemaError, match=r"Stop all workers .* then run `redrive migrate` again"):
        await app.open()

    assert await content(old) == before
    assert (await ledger(old))[-1][0] == NEWEST


async def test_a_worker_of_the_baseline_does_not_stop_a_later_migration(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await beat(database, "busy")
    later = Migration(CURRENT[-1][0] + 1, "later", "CREATE TABLE redrive.more (a integer);\n")
    known = (*migrations(), later)
    monkeypatch.setattr(migration, "migrations", lambda: known)

    await database.migrate()

    assert await ledger(database) == [*CURRENT, (later.version, "later")]


# All or nothing


@pytest.mark.parametrize("broken", [step.version for step in conversion()])
async def test_a_conversion_that_fails_changes_nothing(
    old: Database, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    before = await content(old), await catalog_of(old), await ledger(old)
    steps = tuple(
        step._replace(sqlite=f"{step.sqlite}NONSENSE;\n", postgres=f"{step.postgres}NONSENSE;\n")
        if step.version == broken
        else step
        for step in conversion()
    )
    monkeypatch.setattr(migration, "conversion", lambda: steps)

    with pytest.raises(StoreError, match="NONSENSE"):
        await old.migrate()

    assert (await content(old), await catalog_of(old), await ledger(old)) == before


async def test_a_database_from_before_0_1_is_refused(old: Database) -> None:
    await ask(old, "DELETE FROM redrive.migrations WHERE version = 11")
    before = await content(old), await ledger(old)

    with pytest.raises(SchemaError, match=r"version 10, .* First run `redrive migrate` with Redrive 0\.1"):
        await old.migrate()

    assert (await content(old), await ledger(old)) == before


# Workers of 0.1 that come back

QUEUES = {"leases.claim_alone": "fragile"}
NEW_RUN = {
    **dict.fromkeys(("at", "idempotency_key", "request_hash", "tags", "metadata"), None),
    "workflow": "single",
    "definition": "d",
    "input": "{}",
    "correlation_id": "c",
    "org": ORG,
    "priority": 0,
    "delay": 0.0,
}
CLAIM = {"worker": "frozen", "code_version": "v0", "ttl": 60.0, "most": 9, "workflows": None, "without": None}
RECORD = {
    "step_state": "PENDING",
    "state": "DLQ_PENDING",
    "place": "waiting",
    "held_by": "breaker:mail",
    "result": None,
    "step_input": None,
    "previous_delay": None,
    "error_class": None,
    **dict.fromkeys(("failures", "rate_limit_waits", "holds", "losses", "given_back", "failed"), 0),
    **dict.fromkeys(("isolated_crashes", "isolation", "lonely_losses", "alone", "in_place"), 0),
}


async def send(session: Session, name: str, statement: Statement) -> list[Any]:
    """Send a statement of a frozen worker that holds the leased run, or claims or promotes others."""
    held = {name: work_of_worker()[name] for name in ("id", "token", "epoch")}
    own = held if name.startswith(("records", "leases.renew")) else {"id": "new", "token": 99}
    parameters = {"queue": QUEUES.get(name, "default"), **NEW_RUN, **CLAIM, **RECORD, **own}
    return list(await session.fetch(statement, parameters))


def work_of_worker() -> dict[str, Any]:
    [leased] = [row for row in work()["runs"] if row["place"] == "leased"]
    return leased


async def make_all_work_available(database: Database, leased_until: str) -> None:
    await ask(database, "DELETE FROM redrive.queues")
    await ask(database, f"UPDATE redrive.runs SET {leased_until} = 1 WHERE place = 'leased'")
    await ask(database, "UPDATE redrive.runs SET due_at = 1 WHERE place = 'waiting'")


@pytest.mark.parametrize("version", [NEWEST, 13])
async def test_an_old_worker_that_comes_back_fails_and_changes_nothing(old: Database, version: int) -> None:
    """It sends the statements of 0.1. Before the conversion, each of them had an effect."""
    await create_tables(old, version)
    await make_all_work_available(old, "lease_expires_at")
    for name, statement in old_statements(version).items():
        with pytest.raises(_TakenBackError):
            async with old.transaction() as session:
                assert await send(session, name, statement), f"{name} did nothing"
                raise _TakenBackError
    await old.migrate()
    await forget_triggers_of_tests(old)
    before = await tables(old)

    for name, statement in old_statements(version).items():
        with pytest.raises(StoreError, match=REFUSALS):
            await send(old, name, statement)

    assert await tables(old) == before


class _TakenBackError(Exception):
    """Rolls a transaction back."""


REFUSALS = (
    r"no such column: \S*(lease_expires_at|lonely_losses|alone)|no column named lonely_losses"
    r"|cannot INSERT into generated column"
    r"|NOT NULL constraint failed: runs.sort_key"
    r"|column .*(lease_expires_at|lonely_losses|alone).* does not exist|cannot (insert into|update) view"
    r"|of type uuid but expression is of type text|operator does not exist: uuid = text"
)


# While work goes on


@pytest.fixture
async def postgres(live_postgres: PostgresServer, schema: str) -> AsyncIterator[PostgresDatabase]:
    """A database of version 0.1 on PostgreSQL."""
    database = PostgresDatabase(live_postgres.url, schema=schema)
    await create_tables(database)
    await put_work(database)
    yield database
    await database.close()


@pytest.fixture
async def worker(live_postgres: PostgresServer, postgres: PostgresDatabase) -> AsyncIterator[Any]:
    """A connection of a worker of 0.1 whose last heartbeat is old."""
    connection = await asyncpg.connect(live_postgres.url, server_settings={"search_path": postgres.schema})
    yield connection
    await connection.close()


async def until_it_waits(
    database: PostgresDatabase, table: str = "runs", task: asyncio.Task[None] | None = None
) -> None:
    """Wait until a session waits for the table, or the task is done."""
    text = """SELECT 1 FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE NOT granted AND relnamespace = CAST(:name AS regnamespace) AND relname = :table"""
    async with asyncio.timeout(PATIENCE):
        while not (task and task.done()) and not await ask(database, text, name=database.schema, table=table):
            await asyncio.sleep(0.01)


async def test_a_transaction_of_an_old_worker_ends_before_the_conversion(
    postgres: PostgresDatabase, worker: Any
) -> None:
    """A worker changes a run and then writes its letter; neither side waits for the other forever."""
    async with worker.transaction():
        await worker.execute("UPDATE runs SET priority = 5 WHERE place = 'ready'")
        converting = asyncio.create_task(postgres.migrate())
        await until_it_waits(postgres)
        await worker.execute("UPDATE dead_letters SET assignee = 'ana' WHERE state = 'OPEN'")
    await converting

    assert set(await ask(postgres, "SELECT priority FROM redrive.runs WHERE place = 'ready'")) == {(5,)}
    assigned = "SELECT count(*) FROM redrive.dead_letters WHERE assignee = 'ana'"
    assert await value(postgres, assigned) == 4


async def test_a_worker_cannot_report_while_the_conversion_runs(
    postgres: PostgresDatabase, worker: Any
) -> None:
    """The conversion would otherwise miss a worker that starts at that moment."""
    other = postgres.another()
    async with worker.transaction():
        await worker.execute("LOCK TABLE audit IN ACCESS SHARE MODE; LOCK TABLE runs IN ACCESS SHARE MODE")
        converting = asyncio.create_task(postgres.migrate())
        await until_it_waits(postgres)
        beating = asyncio.create_task(beat(other, "late"))
        await until_it_waits(postgres, "workers", beating)
        assert not beating.done()
    await converting
    await beating
    await other.close()
