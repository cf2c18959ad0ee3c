"""What only PostgreSQL has: a network, failovers, other users, other schemas, a pooler."""

from __future__ import annotations

import asyncio
import sys
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.cases import loop_over
from tests.servers import ASKED_FOR_PASSWORD, PostgresServer

from redrive.errors import InvalidValueError, SchemaError, StoreError, StoreUnavailableError
from redrive.model.run import Run
from redrive.store import postgres_connections, postgres_hint, postgres_session
from redrive.store.migration import migrations
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_connections import Connections
from redrive.store.postgres_types import ARRAYS
from redrive.store.rows import read_row
from redrive.store.statement import SqlQuery, Statement, statement, statements

MODULES = sorted({file.name.split(".")[0] for file in (files("redrive.store") / "sql").iterdir()})
SECRET = "hunter2-hunter2"


def adhoc(text: str, *names: str) -> Statement:
    query = SqlQuery("test", text, names)
    return Statement(query, query)


PROCESS = adhoc("SELECT pg_backend_pid()")
INSERT = adhoc("INSERT INTO redrive.limits VALUES ($1, $2, 0) RETURNING name", "name", "maximum")
NAMES = adhoc("SELECT name FROM redrive.limits ORDER BY name")
SLEEP = adhoc("SELECT pg_sleep(60)")


def limit(name: str, maximum: object = 1) -> SimpleNamespace:
    return SimpleNamespace(name=name, maximum=maximum)


def run(**changes: Any) -> SimpleNamespace:
    values = dict.fromkeys(statement("runs", "enqueue").postgres.names) | {
        "id": uuid.uuid4().hex,
        "org": "default",
        "workflow": "greet",
        "definition": "1",
        "queue": "default",
        "priority": 0,
        "delay": 0.0,
        "input": "{}",
        "correlation_id": "c",
    }
    return SimpleNamespace(**(values | changes))


async def names(database: PostgresDatabase) -> list[str]:
    return [row[0] for row in await database.fetch(NAMES, {})]


async def process(database: PostgresDatabase) -> int:
    [[number]] = await database.fetch(PROCESS, {})
    return int(number)


@pytest.fixture
async def admin(live_postgres: PostgresServer) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(live_postgres.url)
    yield connection
    await connection.close()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, **options)
    try:
        yield database
    finally:
        await database.close()


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


# Statements


@loop_over("module", MODULES)
async def test_every_statement_is_valid(module: str, admin: Any, postgres_database: PostgresDatabase) -> None:
    for each in statements(module).values():
        prepared = await admin.prepare(postgres_database._qualified(each.postgres.text))
        assert len(prepared.get_parameters()) == len(each.postgres.names), each.postgres.name
    await admin.execute("SELECT 1")  # until it executes a statement, the session keeps its locks


async def test_a_batch_in_arrays_is_one_execution(postgres_database: PostgresDatabase) -> None:
    rows = [run(input=str(number), priority=7) for number in range(3)]

    found = await postgres_database.fetch_many(statement("runs", "enqueue"), rows)

    assert [row[0] for row in found] == [row.id for row in rows]
    [stored] = await postgres_database.fetch(statement("runs", "get"), {"id": rows[2].id, "org": "default"})
    stored_run = read_row(Run, stored)
    assert (stored_run.priority, stored_run.input) == (7, "2")


async def test_a_statement_for_batches_takes_a_single_row_as_well(
    postgres_database: PostgresDatabase,
) -> None:
    [found] = await postgres_database.fetch(statement("runs", "enqueue"), vars(run(id="one")))

    assert found[0] == "one"


async def test_a_batch_without_arrays_answers_for_every_row(postgres_database: PostgresDatabase) -> None:
    found = await postgres_database.fetch_many(INSERT, [limit("b"), limit("a")])

    assert [row[0] for row in found] == ["b", "a"]


@pytest.mark.parametrize("bad", [limit("a"), limit("z", "no number"), limit("z", 2**40), limit("\0")])
async def test_a_batch_is_all_or_nothing(postgres_database: PostgresDatabase, bad: SimpleNamespace) -> None:
    with pytest.raises(StoreError):
        await postgres_database.fetch_many(INSERT, [limit("a"), limit("b"), bad, limit("c")])

    assert await names(postgres_database) == []


async def test_an_empty_batch_does_not_even_connect() -> None:
    async with opened("postgresql://127.0.0.1:1/nowhere") as database:
        assert await database.fetch_many(INSERT, []) == []


async def test_a_value_that_cannot_be_stored_is_not_repeated(postgres_database: PostgresDatabase) -> None:
    for name in (f"{SECRET}\0", f"{SECRET}\udc80", SECRET.encode()):
        with pytest.raises(StoreError) as caught:
            await postgres_database.fetch(INSERT, {"name": name, "maximum": 1})

        assert not isinstance(caught.value, StoreUnavailableError)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_the_row_of_a_violation_is_not_repeated(postgres_database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match="null value in column") as caught:
        await postgres_database.fetch(INSERT, {"name": SECRET, "maximum": None})

    assert SECRET not in str(caught.value)


# Transactions


async def test_a_transaction_is_kept(postgres_database: PostgresDatabase) -> None:
    async with postgres_database.transaction() as session:
        await session.fetch(INSERT, {"name": "a", "maximum": 1})
        await session.fetch_many(INSERT, [limit("b"), limit("c")])
        assert await session.fetch_many(INSERT, []) == []
        assert await names(postgres_database) == []

    assert await names(postgres_database) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [RuntimeError("mine"), TimeoutError("mine"), OSError("mine")])
async def test_a_failing_body_rolls_back(postgres_database: PostgresDatabase, error: Exception) -> None:
    with pytest.raises(type(error), match="mine"):
        async with postgres_database.transaction() as session:
            await session.fetch(INSERT, {"name": "a", "maximum": 1})
            raise error

    assert await names(postgres_database) == []


async def test_a_failure_that_the_body_ignores_is_not_a_success(postgres_database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match="did not commit"):
        async with postgres_database.transaction() as session:
            await session.fetch(INSERT, {"name": "a", "maximum": 1})
            with suppress(StoreError):
                await session.fetch(adhoc("SELECT 1 / 0"), {})

    assert await names(postgres_database) == []


@pytest.mark.parametrize("cancellations", [1, 2])
async def test_cancelled_inside_of_a_transaction(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, admin: Any, cancellations: int
) -> None:
    async def long_transaction() -> None:
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a", "maximum": 1})
            started.set()
            await session.fetch(SLEEP, {})

    async with opened(live_postgres.url, schema=postgres_database.schema, connections=1) as database:
        started = asyncio.Event()
        number = await process(database)
        task = asyncio.create_task(long_transaction())
        await started.wait()
        await asyncio.sleep(0.02)
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

        async with asyncio.timeout(60):
            assert await names(database) == []
            async with database.transaction() as session:
                await session.fetch(INSERT, {"name": "b", "maximum": 1})
        state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
        assert await admin.fetchval(state, number) == "idle"


@pytest.mark.parametrize("steps", range(1, 12))
async def test_cancelled_at_any_point(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, steps: int
) -> None:
    """The database commits all or nothing, and its only connection serves the next caller."""

    async def write() -> None:
        async with database.transaction() as session:
            await session.fetch_many(INSERT, [limit("a"), limit("b")])

    async with opened(live_postgres.url, schema=postgres_database.schema, connections=1) as database:
        await names(database)
        task = asyncio.create_task(write())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

        async with asyncio.timeout(60):
            assert await names(database) in ([], ["a", "b"])
            assert await names(postgres_database) in ([], ["a", "b"])


async def test_a_cancelled_statement_leaves_a_usable_connection(live_postgres: PostgresServer) -> None:
    async with opened(live_postgres.url, connections=1) as database:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await database.fetch(SLEEP, {})
            assert await process(database)


async def test_no_statement_waits_for_the_end_of_a_cancelled_one(live_postgres: PostgresServer) -> None:
    """The server may be silent, so the client terminates its connection."""
    async with opened(live_postgres.url, connections=1) as database:
        before = await process(database)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await database.fetch(SLEEP, {})
        assert await process(database) != before


async def test_a_cancelled_statement_is_not_committed_later(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, admin: Any
) -> None:
    """The client sends the cancellation, although it no longer uses the connection."""
    insert = adhoc(
        "INSERT INTO redrive.limits SELECT 'late', 1, 0 FROM (SELECT pg_advisory_xact_lock($1)) AS wait",
        "key",
    )
    key = uuid.uuid4().int % 2**31
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"

    async def until_waiting(number: int) -> None:
        async with asyncio.timeout(20):
            while await admin.fetchval(waiting, key) != number:
                await asyncio.sleep(0.005)

    await admin.execute("SELECT pg_advisory_lock($1)", key)
    async with opened(live_postgres.url, schema=postgres_database.schema, connections=1) as database:
        task = asyncio.create_task(database.fetch(insert, {"key": key}))
        await until_waiting(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await names(database) == []  # on another connection, at once
        await database.wait_for_cancelled()
        await until_waiting(0)
    await admin.execute("SELECT pg_advisory_unlock($1)", key)

    assert await names(postgres_database) == []


async def test_the_end_of_a_database_ends_cancelled_statements(
    live_postgres: PostgresServer, admin: Any
) -> None:
    async with opened(live_postgres.url, connections=1) as database:
        number = await process(database)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await database.fetch(SLEEP, {})

    async with asyncio.timeout(20):
        while await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", number):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_frozen_transaction_does_not_keep_its_locks(
    live_postgres: PostgresServer, pooler: bool
) -> None:
    async with opened(live_postgres.url, pooler=pooler) as database, database.transaction() as session:
        [[timeout]] = await session.fetch(adhoc("SHOW idle_in_transaction_session_timeout"), {})
        [[isolation]] = await session.fetch(adhoc("SHOW transaction_isolation"), {})

    assert (timeout, isolation) == ("30s", "read committed")


async def test_a_deadlock_may_be_tried_again(postgres_database: PostgresDatabase) -> None:
    async def lock(first: str, second: str) -> None:
        async with postgres_database.transaction() as session:
            await session.fetch(adhoc(update, "name"), {"name": first})
            meeting.release()
            await both.wait()
            await session.fetch(adhoc(update, "name"), {"name": second})

    await postgres_database.fetch_many(INSERT, [limit("a"), limit("b")])
    update = "UPDATE redrive.limits SET in_use = 1 WHERE name = $1"
    meeting, both = asyncio.Semaphore(0), asyncio.Event()
    tasks = [asyncio.create_task(lock("a", "b")), asyncio.create_task(lock("b", "a"))]
    for _ in tasks:
        await meeting.acquire()
    both.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert sorted(map(type, results), key=str) == sorted([type(None), StoreUnavailableError], key=str)


# Connections


async def recovered(database: PostgresDatabase, work: Callable[[], Awaitable[object]]) -> None:
    """Only calls that already use a lost connection may fail."""
    with suppress(StoreUnavailableError):
        await work()
    await work()


async def test_lost_connections_are_replaced(postgres_database: PostgresDatabase, admin: Any) -> None:
    numbers = await asyncio.gather(*[process(postgres_database) for _ in range(8)])
    for number in set(numbers):
        await admin.execute("SELECT pg_terminate_backend($1, 5000)", number)

    await recovered(postgres_database, lambda: names(postgres_database))
    await asyncio.gather(*[names(postgres_database) for _ in range(8)])


async def test_a_connection_lost_inside_of_a_transaction(
    postgres_database: PostgresDatabase, admin: Any
) -> None:
    with pytest.raises(StoreUnavailableError):
        async with postgres_database.transaction() as session:
            [[number]] = await session.fetch(PROCESS, {})
            await session.fetch(INSERT, {"name": "a", "maximum": 1})
            await admin.execute("SELECT pg_terminate_backend($1, 5000)", number)
            await asyncio.sleep(0.02)
            await session.fetch(INSERT, {"name": "b", "maximum": 1})

    assert await names(postgres_database) == []


async def test_a_connection_lost_before_the_commit(postgres_database: PostgresDatabase, admin: Any) -> None:
    with pytest.raises(StoreUnavailableError):
        async with postgres_database.transaction() as session:
            [[number]] = await session.fetch(PROCESS, {})
            await admin.execute("SELECT pg_terminate_backend($1, 5000)", number)

    assert await names(postgres_database) == []


async def test_read_only_connections_are_replaced(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    async def freeze() -> None:
        await database.fetch(adhoc("SET default_transaction_read_only = on"), {})
        await database.fetch(adhoc("SELECT pg_sleep(0.05)"), {})

    async def insert(name: str) -> None:
        await database.fetch(INSERT, {"name": name, "maximum": 1})

    async with opened(live_postgres.url, schema=postgres_database.schema, connections=3) as database:
        await asyncio.gather(freeze(), freeze(), freeze())
        with pytest.raises(StoreUnavailableError, match="read-only"):
            await insert("a")

        await asyncio.gather(*[insert(f"{number}") for number in range(6)])


@pytest.mark.parametrize("pooler", [False, True])
async def test_of_several_hosts_a_writable_one_is_used(live_postgres: PostgresServer, pooler: bool) -> None:
    url = live_postgres.url.replace("@", "@127.0.0.1:1,")

    async with opened(url, pooler=pooler) as database:
        assert await process(database)


async def test_several_hosts_that_are_all_read_only(live_postgres: PostgresServer, admin: Any) -> None:
    name = f"frozen_{uuid.uuid4().hex}"
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        url = live_postgres.at(database=name).replace("@", "@127.0.0.1:1,")
        async with opened(url) as database:
            with pytest.raises(StoreUnavailableError):
                await process(database)
        async with opened(f"{url}?target_session_attrs=any") as database:
            assert await process(database)
    finally:
        await admin.execute(f"DROP DATABASE {name}")


@pytest.fixture
async def password_user(admin: Any) -> AsyncIterator[str]:
    await admin.execute(f"CREATE ROLE {ASKED_FOR_PASSWORD} LOGIN PASSWORD 'right'")
    yield ASKED_FOR_PASSWORD
    await admin.execute(f"DROP ROLE {ASKED_FOR_PASSWORD}")


async def test_a_wrong_password(live_postgres: PostgresServer, password_user: str) -> None:
    url = live_postgres.at(user=password_user, password=SECRET)

    await assert_unavailable(url, "check the user and the password")


async def test_a_wrong_address(live_postgres: PostgresServer) -> None:
    await assert_unavailable(f"postgresql://me:{SECRET}@127.0.0.1:1/test", "127.0.0.1:1/test")
    await assert_unavailable(f"postgresql://me:{SECRET}@nowhere.invalid/test", "nowhere.invalid/test")
    await assert_unavailable(
        live_postgres.at(user="postgres", password=SECRET, database="missing"), "does not exist"
    )


async def assert_unavailable(url: str, words: str) -> None:
    async with opened(url) as database:
        with pytest.raises(StoreUnavailableError, match=words) as caught:
            await process(database)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host:{SECRET}/test",
        f"postgresql://me:?{SECRET}@host/test",
        f"postgresql://me:{SECRET}?@host/test",
        f"mysql://me:{SECRET}@host/test",
        f"me:{SECRET}@host/test",
        f"postgresql://me:{SECRET}@host/test?sslmode={SECRET}",
        f"postgresql://me:{SECRET}@[host/test",
    ],
)
async def test_an_address_that_is_not_understood(url: str) -> None:
    with pytest.raises((StoreError, InvalidValueError), match="address of the PostgreSQL database") as caught:
        async with opened(url) as database:
            await process(database)

    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_tables_that_are_missing(live_postgres: PostgresServer, schema: str) -> None:
    async with opened(live_postgres.url, schema=schema) as database:
        with pytest.raises(StoreError, match="if its tables are missing, run `redrive migrate`"):
            await names(database)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    with pytest.raises(StoreError, match=r"pip install 'redrive\[postgres\]'"):
        PostgresDatabase("postgresql://localhost/test")


async def test_closed_twice_and_used_again(postgres_database: PostgresDatabase) -> None:
    await postgres_database.close()
    await postgres_database.close()

    assert await names(postgres_database) == []


def test_one_event_loop_after_the_other(live_postgres: PostgresServer) -> None:
    database = PostgresDatabase(live_postgres.url)

    async def use() -> int:
        await database.hint(["default"])
        number = await process(database)
        await database.close()
        return number

    assert asyncio.run(use()) != asyncio.run(use())


async def test_another_thread_has_separate_connections(postgres_database: PostgresDatabase) -> None:
    async def elsewhere() -> list[str]:
        async with opened_other() as other:
            return await names(other)

    @asynccontextmanager
    async def opened_other() -> AsyncIterator[PostgresDatabase]:
        other = postgres_database.another()
        yield other
        await other.close()

    await postgres_database.fetch(INSERT, {"name": "a", "maximum": 1})
    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == ["a"]


async def test_behind_a_pooler_nothing_stays_prepared(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    prepared = adhoc("SELECT statement FROM pg_prepared_statements")
    options = {"schema": postgres_database.schema, "pooler": True, "connections": 1}

    async with opened(live_postgres.url, **options) as database:
        await database.migrate()
        await database.fetch_many(statement("runs", "enqueue"), [run(), run()])
        await database.fetch_many(INSERT, [limit("a"), limit("b")])
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "c", "maximum": 1})
        assert await names(database) == ["a", "b", "c"]
        assert await database.fetch(prepared, {}) == []
    assert await postgres_database.fetch(prepared, {}) != []


# Migrations


async def test_many_migrate_at_once(live_postgres: PostgresServer, schema: str) -> None:
    databases = [PostgresDatabase(live_postgres.url, schema=schema, connections=1) for _ in range(8)]

    await asyncio.gather(*[database.migrate() for database in databases])

    applied = await databases[0].fetch(adhoc("SELECT version FROM redrive.migrations ORDER BY version"), {})
    assert [row[0] for row in applied] == [migration.version for migration in migrations()]
    for database in databases:
        await database.close()


async def test_processes_migrate_at_once(live_postgres: PostgresServer, schema: str) -> None:
    program = (
        "import asyncio; from redrive.store.postgres import PostgresDatabase; "
        f"asyncio.run(PostgresDatabase({live_postgres.url!r}, schema={schema!r}).migrate())"
    )
    started = [await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(4)]

    assert [await each.wait() for each in started] == [0, 0, 0, 0]


async def test_tables_of_a_newer_program(postgres_database: PostgresDatabase) -> None:
    await postgres_database.fetch(adhoc("INSERT INTO redrive.migrations VALUES (9999, 'future', 0)"), {})

    with pytest.raises(SchemaError, match="9999"):
        await postgres_database.migrate()


@pytest.mark.parametrize(
    "name", ['My Schema"x', "größe", "select", "a.b", "redrive.x", "$1", "1st", "s" * 63, "ä" * 31]
)
async def test_names_of_schemas(live_postgres: PostgresServer, admin: Any, name: str) -> None:
    heard: list[str] = []
    async with (
        opened(live_postgres.url, schema=name) as database,
        opened(live_postgres.url, schema=name) as other,
    ):
        try:
            await database.migrate()
            await database.migrate()
            async with other.listen(heard.append):
                await eventually(lambda: heard)
                await database.hint(["mail"])
                await eventually(lambda: heard == ["", "mail"])
            await database.fetch(INSERT, {"name": "a", "maximum": 1})
            assert await names(database) == ["a"]
        finally:
            quoted = name.replace('"', '""')
            await admin.execute(f'DROP SCHEMA "{quoted}" CASCADE')


@pytest.mark.parametrize("name", ["", "s" * 64, "ä" * 32, "a\0b"])
def test_names_that_no_schema_can_have(name: str) -> None:
    with pytest.raises(InvalidValueError):
        PostgresDatabase("postgresql://localhost/test", schema=name)


@pytest.fixture
async def plain_user(admin: Any) -> AsyncIterator[str]:
    name = f"user_{uuid.uuid4().hex}"
    await admin.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    await admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_user_who_may_only_use_the_tables(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, admin: Any, plain_user: str
) -> None:
    schema = postgres_database.schema
    await admin.execute(
        f"GRANT USAGE ON SCHEMA {schema} TO {plain_user};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {plain_user}"
    )

    async with opened(live_postgres.at(user=plain_user), schema=schema) as database:
        await database.migrate()
        assert await names(database) == []


async def test_a_user_who_may_not_create_schemas(
    live_postgres: PostgresServer, admin: Any, plain_user: str, schema: str
) -> None:
    await admin.execute(f"CREATE SCHEMA {schema}; GRANT ALL ON SCHEMA {schema} TO {plain_user}")

    async with opened(live_postgres.at(user=plain_user), schema=schema) as database:
        await database.migrate()
        assert await names(database) == []
    async with opened(live_postgres.at(user=plain_user), schema="another") as database:
        with pytest.raises(StoreError, match="the database user lacks a privilege"):
            await database.migrate()


# Hints


@asynccontextmanager
async def listening(database: PostgresDatabase) -> AsyncIterator[list[str]]:
    heard: list[str] = []
    async with database.listen(heard.append):
        await eventually(lambda: heard)
        assert heard == [""]
        heard.clear()
        yield heard


async def terminate_listeners(admin: Any, channel: str) -> Sequence[Any]:
    listeners = "pg_stat_activity WHERE query LIKE 'LISTEN %' || $1 || '%'"
    kill = f"SELECT pg_terminate_backend(pid, 5000) FROM {listeners}"
    return list(await admin.fetch(kill, channel))


@pytest.fixture
async def other(postgres_database: PostgresDatabase) -> AsyncIterator[PostgresDatabase]:
    database = postgres_database.another()
    yield database
    await database.close()


async def test_other_connections_receive_a_hint(
    postgres_database: PostgresDatabase, other: PostgresDatabase
) -> None:
    async with listening(other) as heard:
        await postgres_database.hint(["mail", "default"])
        await eventually(lambda: sorted(heard) == ["default", "mail"])


async def test_another_schema_receives_no_hint(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, other: PostgresDatabase
) -> None:
    async with opened(live_postgres.url, schema="stranger") as stranger, listening(other) as heard:
        await stranger.hint(["theirs"])
        await stranger.close()
        await postgres_database.hint(["ours"])
        await eventually(lambda: heard)

        assert heard == ["ours"]


async def test_local_listeners_are_notified_at_once(postgres_database: PostgresDatabase) -> None:
    async with listening(postgres_database) as heard:
        await postgres_database.hint(["mail"])
        assert heard == ["mail"]


async def test_a_burst_is_thinned_out_and_its_end_is_delivered(
    postgres_database: PostgresDatabase, other: PostgresDatabase
) -> None:
    async with listening(other) as heard:
        for number in range(200):
            await postgres_database.hint(["mail", f"{number}"])
            await asyncio.sleep(0.0005)
        await eventually(lambda: "199" in heard)

        assert 1 < heard.count("mail") < 100
        assert heard.index("199") > heard.index("198") > heard.index("0")
        assert len(set(heard)) == 201


async def test_a_hint_does_not_wait_for_the_server() -> None:
    async with opened("postgresql://127.0.0.1:1/nowhere") as database:
        async with asyncio.timeout(60):
            await database.hint(["mail"])
        await asyncio.sleep(0.05)
        await database.hint(["mail"])


async def test_closing_sends_pending_hints(
    postgres_database: PostgresDatabase, other: PostgresDatabase
) -> None:
    async with listening(other) as heard:
        await postgres_database.hint(["first"])
        await postgres_database.hint(["last"])
        await postgres_database.close()
        await eventually(lambda: heard == ["first", "last"])


async def test_a_lost_listener_comes_back(
    postgres_database: PostgresDatabase, other: PostgresDatabase, admin: Any
) -> None:
    async with listening(other) as heard:
        for _ in range(3):
            assert len(await terminate_listeners(admin, postgres_database.schema)) == 1
            await eventually(lambda: heard == [""])
            await postgres_database.hint(["mail"])
            await eventually(lambda: heard == ["", "mail"])
            heard.clear()


async def test_no_connection_listens_afterwards(
    postgres_database: PostgresDatabase, other: PostgresDatabase, admin: Any
) -> None:
    async with listening(other) as heard:
        pass
    await postgres_database.hint(["mail"])
    await other.hint(["mail"])
    await asyncio.sleep(0.05)

    assert heard == []
    assert await terminate_listeners(admin, postgres_database.schema) == []


async def test_listening_without_a_sender_does_not_fail() -> None:
    heard: list[str] = []
    async with opened("postgresql://127.0.0.1:1/nowhere") as database, database.listen(heard.append):
        await asyncio.sleep(0.05)
        await database.hint(["mail"])

    assert heard == ["mail"]


async def test_behind_a_pooler_only_local_hints_arrive(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, admin: Any
) -> None:
    heard: list[str] = []
    options = {"schema": postgres_database.schema, "pooler": True}
    async with (
        opened(live_postgres.url, **options) as pooled,
        listening(postgres_database) as direct,
        pooled.listen(heard.append),
    ):
        await pooled.hint(["mail"])
        assert heard == ["mail"]
        await eventually(lambda: direct == ["mail"])
    assert await terminate_listeners(admin, postgres_database.schema) == []


class Proxy:
    """Forwards bytes until it silently stops, like a broken network."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._passing = asyncio.Event()
        self._passing.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Start the proxy and yield the address of the database through it."""
        server = await asyncio.start_server(self._accept, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        place = f"{self._url.username}@127.0.0.1:{port}"
        yield urlunsplit(self._url._replace(netloc=place, query="sslmode=disable"))
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def silence(self) -> None:
        """Forward nothing more on open connections, but keep them open; new connections work."""
        self._passing.clear()
        self._passing = asyncio.Event()
        self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        self._writers += [writer, far_writer]
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._tasks.append(asyncio.create_task(self._pass(source, target, self._passing)))

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        while data := await source.read(65536):
            await passing.wait()
            target.write(data)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (postgres_session, postgres_connections, postgres_hint):
        for name in ("COMMAND_TIMEOUT", "RELEASE_TIMEOUT", "PING_INTERVAL", "PING_TIMEOUT"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0.2)


async def test_a_listener_notices_that_the_network_is_silent(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    proxy = Proxy(live_postgres.url)
    async with (
        proxy.running() as url,
        opened(url, schema=postgres_database.schema) as remote,
        listening(remote) as heard,
    ):
        await asyncio.sleep(0.3)
        assert heard == []

        proxy.silence()
        await eventually(lambda: heard == [""])
        await postgres_database.hint(["mail"])
        await eventually(lambda: heard == ["", "mail"])


async def write(database: PostgresDatabase) -> None:
    async with database.transaction() as session:
        await session.fetch(INSERT, {"name": uuid.uuid4().hex, "maximum": 1})


@pytest.mark.parametrize("work", [names, write])
async def test_a_silent_network_blocks_no_caller_for_long(
    live_postgres: PostgresServer,
    postgres_database: PostgresDatabase,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[PostgresDatabase], Awaitable[object]],
) -> None:
    shorten(monkeypatch)
    proxy = Proxy(live_postgres.url)
    async with (
        proxy.running() as url,
        opened(url, schema=postgres_database.schema, connections=3) as remote,
    ):
        await asyncio.gather(*[work(remote) for _ in range(3)])
        proxy.silence()
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailableError, match="did not answer in time"):
                await work(remote)
        async with asyncio.timeout(60):
            await asyncio.gather(*[work(remote) for _ in range(3)])


async def test_a_slot_is_returned_even_if_its_connection_cannot_be_discarded(
    live_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(live_postgres.url, pooler=False, most=1)

    def fail(connection: Any) -> None:
        raise RuntimeError("it cannot be ended")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="cannot be ended"):
        patch.setattr(connections, "throw_away", fail)
        async with connections.borrowed() as kept:
            connections._expire()
    async with asyncio.timeout(60), connections.borrowed() as another:
        assert await another.fetchval("SELECT 1") == 1
    for connection in (kept, another):
        await connection.close()


BATCH = """SELECT id, number, small, share FROM unnest(
    CAST($1 AS uuid[]), CAST($2 AS bigint[]), CAST($3 AS integer[]), CAST($4 AS double precision[])
) AS batch (id, number, small, share)"""


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_batch_needs_no_statement_about_its_types(
    live_postgres: PostgresServer, pooler: bool
) -> None:
    connections = Connections(live_postgres.url, pooler=pooler, most=1)
    sent: list[str] = []
    async with connections.borrowed() as connection:
        connection.add_query_logger(lambda query: sent.append(query.query))
        row = ("0123456789abcdef" * 2, 2**40, -7, 0.5)
        nothing = ("f" * 32, None, None, None)
        columns = [list(column) for column in zip(row, nothing, strict=True)]

        assert [tuple(found) for found in await connection.fetch(BATCH, *columns)] == [row, nothing]
        # asyncpg queries other types when it needs them
        assert await connection.fetchval("SELECT CAST($1 AS numeric[])", [3, 4]) == [3, 4]
        await asyncio.sleep(0)  # the event loop calls loggers in its next iteration
        about_batch, *about_others, _ = sent
        assert about_batch == BATCH
        assert about_others
    await connections.close()


async def test_arrays_are_described_as_the_server_describes_them(live_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(live_postgres.url)
    for oid, known in ARRAYS.items():
        rows, _ = await connection._introspect_types([oid], 10.0)
        [asked] = [row for row in rows if row["oid"] == oid]

        assert dict(asked) == known
    await connection.close()
