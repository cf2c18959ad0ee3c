"""Bringing the tables up to date: once, whole, from wherever, and never backwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask, enqueued, tables, value
from tests.store.by_hand import letters

from redrive.errors import SchemaError, StoreError
from redrive.store import migration
from redrive.store.database import Database
from redrive.store.migration import Migration, conversion, migrations, pending
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import statements
from redrive.store.store import Store

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


async def versions(database: Database) -> list[int]:
    return [row[0] for row in await ask(database, "SELECT version FROM redrive.migrations ORDER BY version")]


def with_another(monkeypatch: pytest.MonkeyPatch, text: str) -> Migration:
    another = Migration(migrations()[-1].version + 1, "another", text)
    known = (*migrations(), another)
    monkeypatch.setattr(migration, "migrations", lambda: known)
    return another


def test_versions_have_no_gaps() -> None:
    for known in (migrations(), conversion()):
        assert [each.version for each in known] == list(range(known[0].version, known[-1].version + 1))
        assert len({each.name for each in known}) == len(known)


def test_the_conversion_leads_to_the_baseline() -> None:
    assert conversion()[-1][:2] == migrations()[0][:2] == (16, "baseline")


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


def test_what_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    another = with_another(monkeypatch, "")
    baseline, *later, last = migration.migrations()
    assert last == another

    assert pending([]) == [baseline, *later, another]
    assert pending([16]) == [*later, another]
    assert pending(range(16, another.version + 1)) == []
    assert pending(range(1, 12)) == [*conversion(), *later, another]
    assert pending(range(1, 16)) == [conversion()[-1], *later, another]
    with pytest.raises(
        SchemaError, match=r"at version 10, from before Redrive 0\.1; .* from version 11 on\. First run"
    ):
        pending(range(1, 11))


INPUTS_ONLY = {"owner", "order_key"}
"""Columns of run_inputs that the view leaves out, because no list of runs reads them."""
ONLY_POSTGRES = {"run_order": {"pending"}}
"""What SQLite does not need: it has one writer, so a transaction settles the order with each statement."""


async def test_both_databases_have_the_same_columns(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    sqlite = SqliteDatabase(str(tmp_path / "redrive.db"))
    await sqlite.migrate()
    for table in TABLES:
        on_sqlite = await sqlite_columns(sqlite, table)
        on_postgres = await postgres_columns(postgres_database, table)

        if table == "runs":  # a view on PostgreSQL: see the next test
            assert sorted(on_sqlite.keys() - INPUTS_ONLY) == sorted(on_postgres)
        else:
            only = ONLY_POSTGRES.get(table, set())
            assert only <= on_postgres.keys()
            common = {name: required for name, required in on_postgres.items() if name not in only}
            assert list(on_sqlite.items()) == list(common.items()) != [], table
    await sqlite.close()


async def test_the_tables_of_a_split_run_require_what_the_one_table_requires(
    tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    sqlite = SqliteDatabase(str(tmp_path / "redrive.db"))
    await sqlite.migrate()
    whole = await sqlite_columns(sqlite, "runs")
    await sqlite.close()
    del whole["given_correlation_id"]  # that of run_inputs is what was given, too
    found: set[str] = set()
    for table, (stricter, laxer) in SPLIT.items():
        columns = await postgres_columns(postgres_database, table)
        assert columns.keys() <= whole.keys(), table
        assert {name for name in columns if columns[name] and not whole[name]} == stricter, table
        assert {name for name in columns if whole[name] and not columns[name]} == laxer, table
        found |= columns.keys()
    assert found == whole.keys()


SPLIT: dict[str, tuple[set[str], set[str]]] = {
    "run_inputs": (set(), set()),
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
    text = f"SELECT name, \"notnull\" = 1 OR pk > 0 FROM pragma_table_xinfo('{table}')"
    return {name: bool(required) for name, required in await ask(database, text)}


async def postgres_columns(database: PostgresDatabase, table: str) -> dict[str, bool]:
    text = """SELECT column_name, is_nullable = 'NO' FROM information_schema.columns
        WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position"""
    return dict(await ask(database, text, schema=database.schema, name=table))


async def test_without_anything_to_do_no_work_is_stopped(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    worker = await asyncpg.connect(live_postgres.url)
    async with asyncio.timeout(60), worker.transaction():
        await worker.execute(f"LOCK TABLE {postgres_database.schema}.leases IN ACCESS SHARE MODE")
        await postgres_database.migrate()
    await worker.close()


async def test_groups_are_named_by_the_message_of_their_newest_letter(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    monkeypatch.setattr(migration, "migrations", lambda: known[:2])
    await fresh.migrate()
    [spoken] = await letters(fresh, fingerprint="f1", message="order 7:\nno answer")
    [quoted] = await letters(fresh, fingerprint="f2", message="'country'")
    columns = "org, fingerprint, title, reason, workflow, step, task, category, error_type, sample, state"
    for fingerprint, title, sample in (
        ("f1", "order <n>: no answer", spoken),
        ("f2", "KeyError: <quoted>", quoted),
        ("f3", "removed <n>", "gone"),
    ):
        await ask(
            fresh,
            f"""INSERT INTO redrive.failure_groups ({columns}, occurrences, first_seen, last_seen)
            VALUES ('acme', '{fingerprint}', '{title}', '', 'w', 's', 't', 'unknown', 'E', '{sample}', 'OPEN',
                1, 1, 1)""",
        )

    monkeypatch.undo()
    await fresh.migrate()

    text = "SELECT fingerprint, title, pattern FROM redrive.failure_groups ORDER BY fingerprint"
    assert [tuple(row) for row in await ask(fresh, text)] == [
        ("f1", "order 7: no answer", "order <n>: no answer"),
        ("f2", "KeyError: <quoted>", "KeyError: <quoted>"),
        ("f3", "removed <n>", "removed <n>"),
    ]
