"""Bringing the tables up to date: once, whole, from wherever, and never backwards."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask, enqueued, holder, tables, value
from tests.store.rows import put_runs, run_row

from redrive.errors import ConflictError, SchemaError, StoreError
from redrive.store import migration
from redrive.store.database import Database
from redrive.store.migration import Migration, migrations, pending
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import statements
from redrive.store.store import Store
from redrive.store.tallies import Live, TallyPart

pytestmark = pytest.mark.usefixtures("real_migrations")

MIGRATE = """
import asyncio, sys
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import statements
from redrive.store.store import Store

async def main():
    store = Store(SqliteDatabase(sys.argv[1]))
    sys.stdin.readline()
    await store.open()
    await store.runs.all()
    await store.close()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """A database without tables."""
    if request.param == "sqlite":
        sqlite = SqliteDatabase(str(tmp_path / "fresh.db"))
        yield sqlite
        await sqlite.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    postgres = PostgresDatabase(server.url, schema=schema)
    yield postgres
    await ask(postgres, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await postgres.close()


async def versions(database: Database) -> list[int]:
    return [row[0] for row in await ask(database, "SELECT version FROM redrive.migrations ORDER BY version")]


def with_another(monkeypatch: pytest.MonkeyPatch, text: str) -> Migration:
    another = Migration(migrations()[-1].version + 1, "another", text)
    known = (*migrations(), another)
    monkeypatch.setattr(migration, "migrations", lambda: known)
    return another


def test_versions_have_no_gaps() -> None:
    assert [each.version for each in migrations()] == list(range(1, len(migrations()) + 1))
    assert len({each.name for each in migrations()}) == len(migrations())


async def test_migrating_again_changes_nothing(database: Database) -> None:
    await enqueued(Store(database), 2)
    before = await tables(database)

    await database.migrate()
    await Store(database).open()

    assert await tables(database) == before
    assert await versions(database) == [each.version for each in migrations()]


async def test_the_ledger_says_what_and_when(database: Database) -> None:
    now = await value(database, "SELECT :now")

    rows = await ask(database, "SELECT version, name, applied_at FROM redrive.migrations ORDER BY version")

    assert [row[:2] for row in rows] == [(each.version, each.name) for each in migrations()]
    assert all(now - 600 < row[2] <= now for row in rows)


async def test_several_objects_migrate_at_once(fresh: Database) -> None:
    others = [fresh.another() for _ in range(4)]

    await asyncio.gather(*[other.migrate() for other in others])

    assert await versions(fresh) == [each.version for each in migrations()]
    for other in others:
        await other.close()


@pytest.mark.parametrize("rounds", [3])
async def test_several_processes_migrate_one_file_at_once(tmp_path: Path, rounds: int) -> None:
    pipe = asyncio.subprocess.PIPE
    for number in range(rounds):
        path = str(tmp_path / f"{number}.db")
        started = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", MIGRATE, path, stdin=pipe, stdout=pipe, stderr=pipe
            )
            for _ in range(4)
        ]

        outputs = await asyncio.gather(*[each.communicate(b"go\n") for each in started])

        assert [each.returncode for each in started] == [0] * 4, outputs
        database = SqliteDatabase(path)
        assert await versions(database) == [each.version for each in migrations()]
        await database.close()


async def test_tables_of_a_newer_program_are_refused(database: Database) -> None:
    await ask(database, "INSERT INTO redrive.migrations VALUES (9999, 'future', 0)")
    before = await tables(database)

    with pytest.raises(SchemaError, match=r"version 9999.*install the newer Redrive"):
        await database.migrate()

    assert await tables(database) == before
    await ask(database, "DELETE FROM redrive.migrations WHERE version = 9999")
    await database.migrate()


async def test_a_later_migration_is_added(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await enqueued(Store(database))
    text = (
        "ALTER TABLE redrive.definitions ADD COLUMN extra text;\n\nCREATE TABLE redrive.more (a integer);\n"
    )
    another = with_another(monkeypatch, text)

    await database.migrate()
    await database.migrate()

    assert await versions(database) == [each.version for each in migrations()] + [another.version]
    assert await ask(database, "SELECT extra FROM redrive.definitions") == [(None,)]
    assert await ask(database, "SELECT a FROM redrive.more") == []


async def test_a_migration_that_fails_never_was(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await enqueued(Store(database))
    before = await tables(database)
    with_another(
        monkeypatch, "CREATE TABLE redrive.more (a integer);\nDELETE FROM redrive.runs;\nNONSENSE;\n"
    )

    with pytest.raises(StoreError, match="NONSENSE"):
        await database.migrate()

    assert await tables(database) == before
    with pytest.raises(StoreError):
        await ask(database, "SELECT a FROM redrive.more")


async def test_a_first_migration_that_fails_leaves_no_table(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_another(monkeypatch, "NONSENSE;\n")
    with pytest.raises(StoreError):
        await fresh.migrate()
    with pytest.raises(StoreError):
        await versions(fresh)
    monkeypatch.undo()

    await fresh.migrate()

    assert await versions(fresh) == [each.version for each in migrations()]


async def test_without_tables_the_error_says_so(fresh: Database) -> None:
    with pytest.raises(StoreError, match=r"runs"):
        await fresh.fetch(statements("runs")["all"], {})


def test_what_is_pending() -> None:
    everything = list(migrations())

    assert pending([]) == everything
    assert pending([each.version for each in everything]) == []
    assert pending([everything[0].version]) == everything[1:]


async def test_both_databases_have_the_same_columns(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    sqlite = SqliteDatabase(str(tmp_path / "redrive.db"))
    await sqlite.migrate()
    for table in TABLES:
        on_sqlite = await sqlite_columns(sqlite, table)
        on_postgres = await postgres_columns(postgres_database, table)

        if table == "runs":  # a view on PostgreSQL: see the next test
            assert sorted(on_sqlite) == sorted(on_postgres)
        else:
            assert list(on_sqlite.items()) == list(on_postgres.items()) != [], table
    await sqlite.close()


async def test_the_tables_of_a_split_run_require_what_the_one_table_requires(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    sqlite = SqliteDatabase(str(tmp_path / "redrive.db"))
    await sqlite.migrate()
    whole = await sqlite_columns(sqlite, "runs")
    await sqlite.close()
    found: set[str] = set()
    for table, (stricter, laxer) in SPLIT.items():
        columns = await postgres_columns(postgres_database, table)
        assert columns.keys() <= whole.keys(), table
        assert {name for name in columns if columns[name] and not whole[name]} == stricter, table
        assert {name for name in columns if whole[name] and not columns[name]} == laxer, table
        found |= columns.keys()
    assert found == whole.keys()


SPLIT: dict[str, tuple[set[str], set[str]]] = {
    "run_inputs": (set(), {"correlation_id"}),
    "ready": (set(), set()),
    "idle": (set(), set()),
    "leases": ({"leased_until"}, set()),
    "ended": (
        {"ended_at"},
        {"failures", "rate_limit_waits", "holds", "losses", "isolated_crashes", "isolation"}
        | {"replays", "redrives", "step_only", "has_letter"},
    ),
}
"""The tables of a run on PostgreSQL: what they require beyond the table on SQLite, and what may be empty.
The view shows 0 for an empty count, and the id of the run for an empty correlation id."""


async def sqlite_columns(database: SqliteDatabase, table: str) -> dict[str, bool]:
    """The columns in order, each with whether it must have a value."""
    text = f"SELECT name, \"notnull\" = 1 OR pk > 0 FROM pragma_table_info('{table}')"
    return {name: bool(required) for name, required in await ask(database, text)}


async def postgres_columns(database: PostgresDatabase, table: str) -> dict[str, bool]:
    text = """SELECT column_name, is_nullable = 'NO' FROM information_schema.columns
        WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position"""
    return dict(await ask(database, text, schema=database.schema, name=table))


PLACES: dict[str, dict[str, Any]] = {
    "ready": {"state": "RUNNING", "step_state": "RETRYING"},
    "waiting": {"state": "RUNNING", "step_state": "RETRYING", "due_at": 9e9},
    "held": {"held_by": "breaker:mail"},
    "alone": {"state": "RUNNING", "isolation": 1},
    "leased": {"state": "RUNNING", "step_state": "RUNNING", "leased_until": 9e9, "slots": '["mail"]'},
    "ended": {"state": "SUCCESS", "step_state": "SUCCESS", "ended_at": 7.0, "result": '"done"'},
}


async def test_runs_are_as_they_were_after_the_split_i1(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every place, with a value in every column and with as few as possible."""
    every = migrations()
    earlier = tuple(each for each in every if each.name != "split" and each.version < 15)
    monkeypatch.setattr(migration, "migrations", lambda: earlier)
    await fresh.migrate()
    for number, (place, changes) in enumerate(PLACES.items()):
        given = {"idempotency_key": f"k{number}", "request_hash": "h", "correlation_id": "c", "tags": '["t"]'}
        spent = {
            **dict.fromkeys(
                ("failures", "rate_limit_waits", "holds", "losses", "isolated_crashes"), 3 + number
            ),
            **dict.fromkeys(("attempt", "epoch", "token", "step_index", "priority"), 4 + number),
            **dict.fromkeys(("replays", "redrives", "step_only", "has_letter"), 1),
            **dict.fromkeys(("previous_delay", "first_failed_at", "last_failed_at"), 5.5),
            **dict.fromkeys(("attempt_started_at", "started_at", "cancel_requested_at"), 6.5),
            **dict.fromkeys(("error_class", "worker", "code_version", "policy_override"), place),
            **dict.fromkeys(("progress", "step_input", "metadata"), f'"{place}"'),
        }
        await put_runs(fresh, [run_row(place=place, **changes)])
        await put_runs(fresh, [run_row(place=place, **{**given, **spent, **changes})])
    names = await columns_of_runs(fresh)
    text = f"SELECT {', '.join(names)} FROM redrive.runs ORDER BY id"
    before = await ask(fresh, text)

    monkeypatch.setattr(migration, "migrations", lambda: every)
    await fresh.migrate()

    assert await ask(fresh, text) == before
    assert len(before) == 2 * len(PLACES)
    keys = await ask(fresh, "SELECT sort_key, submitted_at - 3600.0 * priority FROM redrive.runs")
    assert [key for key, _ in keys] == [expected for _, expected in keys]
    store = Store(fresh)
    assert len(await store.leases.claim("default", 10, holder())) == 2
    assert await store.limits.count_held("breaker:mail") == 2
    with pytest.raises(ConflictError):
        await enqueued(store, idempotency_key="k0", request_hash="other")


async def columns_of_runs(database: Database) -> dict[str, bool]:
    if isinstance(database, PostgresDatabase):
        return await postgres_columns(database, "runs")
    assert isinstance(database, SqliteDatabase)
    return await sqlite_columns(database, "runs")


async def test_dead_letters_of_the_first_version_are_counted_and_grouped(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = migrations()
    monkeypatch.setattr(migration, "migrations", lambda: every[:1])
    await fresh.migrate()
    for number, state in enumerate(["OPEN", "OPEN", "RESOLVED"]):
        await ask(fresh, OLD_LETTER, id=f"l{number}", state=state, fingerprint="f" if number else "g")

    monkeypatch.setattr(migration, "migrations", lambda: every)
    await fresh.migrate()

    store = Store(fresh)
    figures = await store.dead_letters.figures("acme", None)
    assert (figures.by_state, figures.lifetime.enqueued_total) == ({"OPEN": 2, "RESOLVED": 1}, 3)
    line = (await store.groups.find("acme", "f", None, 1))[0]
    assert (line.group.occurrences, line.group.sample, line.letters.open, line.letters.closed) == (
        2,
        "l2",
        1,
        1,
    )
    letter = await store.dead_letters.get("l0", "acme")
    assert (letter.redrive, letter.effect, letter.next_redrive_at) == ("never", "idempotent", None)
    assert (letter.config, letter.policy) == ({"old": 1}, {"name": "old"})


async def test_what_was_there_before_is_in_the_tallies(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = migrations()
    monkeypatch.setattr(migration, "migrations", lambda: every[:6])
    await fresh.migrate()
    for number, state in enumerate(["OPEN", "OPEN", "EXHAUSTED", "RESOLVED"]):
        await ask(fresh, OLD_LETTER, id=f"l{number}", state=state, fingerprint="f")
    set_time = "UPDATE redrive.dead_letters SET created_at = :at WHERE id = :id"
    await ask(fresh, set_time, id="l0", at=600_300.0)
    await ask(fresh, set_time, id="l1", at=691_202.0)  # eight days after the last two, and a second
    await ask(fresh, "UPDATE redrive.dead_letters SET next_redrive_at = 5 WHERE id = 'l0'")

    monkeypatch.setattr(migration, "migrations", lambda: every)
    await fresh.migrate()

    tallies = Store(fresh).tallies
    assert await tallies.live("acme") == Live(open=1, scheduled=1, exhausted=1)
    assert sorted(await tallies.flow("acme", 0, 300)) == [
        TallyPart("came", "", 2001, 1),
        TallyPart("came", "", 2304, 1),
        TallyPart("left", "", 0, 1),
    ]
    assert sorted(await tallies.occurred("acme", ["f"], 0, 3600)) == [("f", 166, 1), ("f", 192, 1)]


# While work goes on


@pytest.fixture
async def older(
    live_postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """Tables of the sixth version, with a dead letter; the program knows all versions."""
    every = migrations()
    database = PostgresDatabase(live_postgres.url, schema=schema)
    monkeypatch.setattr(migration, "migrations", lambda: every[:6])
    await database.migrate()
    monkeypatch.setattr(migration, "migrations", lambda: every)
    await ask(database, OLD_LETTER, id="old", state="OPEN", fingerprint="f")
    yield database
    await database.close()


@pytest.fixture
async def worker(live_postgres: PostgresServer) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(live_postgres.url)
    yield connection
    await connection.close()


async def waits(database: PostgresDatabase) -> None:
    """Until somebody waits for a table."""
    text = """SELECT 1 FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE NOT granted AND relnamespace = CAST(:name AS regnamespace)"""
    async with asyncio.timeout(60):
        while not await ask(database, text, name=database.schema):
            await asyncio.sleep(0.01)


def letter_of(schema: str, name: str) -> str:
    text = OLD_LETTER.replace("redrive.", f"{schema}.").replace(":id", f"'{name}'")
    return text.replace(":state", "'OPEN'").replace(":fingerprint", "'f'")


async def test_a_letter_that_comes_while_letters_are_counted_is_counted(
    older: PostgresDatabase, worker: Any
) -> None:
    async with worker.transaction():
        await worker.execute(letter_of(older.schema, "late"))
        migrating = asyncio.create_task(older.migrate())
        await waits(older)
    await migrating

    assert await Store(older).tallies.live("acme") == Live(open=2)


async def test_workers_and_a_migration_do_not_wait_for_each_other(
    older: PostgresDatabase, worker: Any
) -> None:
    """Who buries a run changes it, and then writes the dead letter."""
    async with worker.transaction():
        await worker.execute(f"UPDATE {older.schema}.runs SET priority = priority")
        migrating = asyncio.create_task(older.migrate())
        await waits(older)
        await worker.execute(letter_of(older.schema, "late"))
    await migrating

    assert await versions(older) == [each.version for each in migrations()]
    assert await Store(older).tallies.live("acme") == Live(open=2)


async def test_without_anything_to_do_no_work_is_stopped(
    postgres_database: PostgresDatabase, worker: Any
) -> None:
    async with asyncio.timeout(60), worker.transaction():
        await worker.execute(f"LOCK TABLE {postgres_database.schema}.runs IN ACCESS SHARE MODE")
        await postgres_database.migrate()


OLD_LETTER = """INSERT INTO redrive.dead_letters (id, org, run_id, step_index, step, task, workflow, queue,
    state, category, error_class, error_type, message, stack, public_code, public_message, reason,
    explanation,
    fingerprint, fingerprint_reason, title, attempts, failures, payload, config, policy, idempotency_key,
    correlation_id, created_at, updated_at, replay_count)
VALUES (:id, 'acme', :id, 0, 'pay', 'pay', 'pay', 'default',
    :state, 'network', 'retryable', 'OSError', 'no', '', '', '', 'attempts_spent', '',
    :fingerprint, '', 'no', 1, 1, '{}', '{"old":1}', '{"name":"old"}', 'k', 'c', 1, 2, 0)
"""
