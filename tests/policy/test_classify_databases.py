"""Errors of real databases: PostgreSQL with three drivers, Redis with two, SQLite.

D1 (error classes), W5 (categories), and the delivery: the server has seen a statement that it rolled back or
rejected, never one on a closed connection, and maybe one whose connection broke.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.misbehaving import (
    HOST,
    Behavior,
    MisbehavingServer,
    close_on_accept,
    full_backlog,
    refused_port,
    reset_on_accept,
)
from tests.servers import ASKED_FOR_PASSWORD, PostgresServer, RedisServer, redis_server

from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy.classify import classify

NEVER, MAYBE, SEEN = Delivery.NEVER_SEEN, Delivery.MAYBE_SEEN, Delivery.SEEN
NO_SUCH_HOST = "a." * 124 + "invalid"
IMPATIENT = 0.15


class Verdict(NamedTuple):
    category: Category
    error_class: ErrorClass
    delivery: Delivery


CONFLICT = Verdict(Category.CONFLICT, ErrorClass.FINAL, SEEN)
LOST_A_RACE = Verdict(Category.CONFLICT, ErrorClass.RETRYABLE, SEEN)
INVALID = Verdict(Category.VALIDATION, ErrorClass.FINAL, SEEN)
DENIED = Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN)
NOT_SET_UP = Verdict(Category.MISSING_CONFIG, ErrorClass.FINAL, SEEN)
TIMED_OUT = Verdict(Category.TIMEOUT, ErrorClass.RETRYABLE, SEEN)
REFUSED_FOR_NOW = Verdict(Category.RESOURCE, ErrorClass.RETRYABLE, SEEN)
NONE_LEFT = Verdict(Category.RESOURCE, ErrorClass.RETRYABLE, NEVER)
CUT_OFF = Verdict(Category.NETWORK, ErrorClass.RETRYABLE, MAYBE)
NOT_CONNECTED = Verdict(Category.NETWORK, ErrorClass.RETRYABLE, NEVER)
TIMEOUT_MAYBE = Verdict(Category.TIMEOUT, ErrorClass.RETRYABLE, MAYBE)
TIMEOUT_NEVER = Verdict(Category.TIMEOUT, ErrorClass.RETRYABLE, NEVER)
UNKNOWN = Verdict(Category.UNKNOWN, ErrorClass.FINAL, MAYBE)


def verdict(error: BaseException) -> Verdict:
    failure = classify(error)
    assert failure.rule
    assert failure.http_status is None
    assert failure.retry_after is None
    return Verdict(failure.category, failure.error_class, failure.delivery)


async def failing(action: Awaitable[object]) -> Exception:
    try:
        result = await action
    except Exception as error:
        return error
    raise AssertionError(f"it was to fail, but gave {result!r}")


# --- PostgreSQL -----------------------------------------------------------------------------------


class PsycopgInThread:
    """psycopg's sync connection with the interface of the async one."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    async def execute(self, statement: str) -> object:
        return await asyncio.to_thread(self.connection.execute, statement)

    async def close(self) -> None:
        self.connection.close()


async def by_asyncpg(url: str) -> Any:
    return await asyncpg.connect(url, timeout=20)


async def by_psycopg(url: str) -> Any:
    return PsycopgInThread(await asyncio.to_thread(psycopg.connect, url, autocommit=True))


async def by_psycopg_async(url: str) -> Any:
    return await psycopg.AsyncConnection.connect(url, autocommit=True)


Connect = Callable[[str], Awaitable[Any]]
DRIVERS = (by_asyncpg, by_psycopg, by_psycopg_async)

every_driver = pytest.mark.parametrize("connect", DRIVERS)
table_numbers = itertools.count()


async def execute_all(connection: Any, *statements: str) -> None:
    for statement in statements:
        await connection.execute(statement)


@contextlib.asynccontextmanager
async def connected(connect: Connect, url: str) -> AsyncIterator[Any]:
    connection = await connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
def table(live_postgres: PostgresServer) -> Iterator[str]:
    """A table with two rows."""
    name = f"classified_{next(table_numbers)}"
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, value int NOT NULL CHECK (value < 100))"
        )
        connection.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        yield name
        connection.execute(f"DROP TABLE {name}")


@every_driver
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["INSERT INTO {table} VALUES (1, 1)"], CONFLICT),
        (["INSERT INTO {table} VALUES (3, NULL)"], INVALID),
        (["INSERT INTO {table} VALUES (3, 100)"], INVALID),
        (["SELECT 1 / 0"], INVALID),
        (["SELEC 1"], INVALID),
        (["SELECT * FROM no_such_table"], INVALID),
        (["SELECT no_such_column FROM {table}"], INVALID),
        (["SET ROLE pg_monitor", "SELECT * FROM {table}"], DENIED),
        (["SET statement_timeout = '50ms'", "SELECT pg_sleep(20)"], TIMED_OUT),
        (["BEGIN READ ONLY", "DELETE FROM {table}"], Verdict(Category.NETWORK, ErrorClass.RETRYABLE, SEEN)),
        (["DO $$ BEGIN RAISE EXCEPTION 'no'; END $$"], UNKNOWN),
        (["SET temp_file_limit = 0", "{spill}"], REFUSED_FOR_NOW),
    ],
)
async def test_postgres_statement(
    connect: Connect, statements: list[str], expected: Verdict, table: str, live_postgres: PostgresServer
) -> None:
    """D1, W5, by SQLSTATE."""
    many = "SELECT g FROM generate_series(1, 50000) g ORDER BY -g"
    spill = f"SET work_mem = '64kB'; SELECT count(*) FROM ({many}) sorted"
    async with connected(connect, live_postgres.url) as connection:
        *before, last = (statement.format(table=table, spill=spill) for statement in statements)
        await execute_all(connection, *before)
        error = await failing(connection.execute(last))
    assert verdict(error) == expected


@every_driver
async def test_postgres_serialization_failure(
    connect: Connect, table: str, live_postgres: PostgresServer
) -> None:
    """D1: the loser of a race may simply run again."""
    async with connected(connect, live_postgres.url) as one, connected(connect, live_postgres.url) as other:
        await execute_all(one, "BEGIN ISOLATION LEVEL REPEATABLE READ", f"SELECT * FROM {table}")
        await other.execute(f"UPDATE {table} SET value = 3 WHERE id = 1")
        error = await failing(one.execute(f"UPDATE {table} SET value = 4 WHERE id = 1"))
    assert verdict(error) == LOST_A_RACE


@every_driver
async def test_postgres_deadlock(connect: Connect, table: str, live_postgres: PostgresServer) -> None:
    """D1: PostgreSQL ends one of the two, which can be repeated."""
    async with connected(connect, live_postgres.url) as one, connected(connect, live_postgres.url) as other:
        for connection, row in ((one, 1), (other, 2)):
            await execute_all(connection, "SET deadlock_timeout = '50ms'", "BEGIN")
            await connection.execute(f"UPDATE {table} SET value = 5 WHERE id = {row}")
        results = await asyncio.gather(
            one.execute(f"UPDATE {table} SET value = 6 WHERE id = 2"),
            other.execute(f"UPDATE {table} SET value = 6 WHERE id = 1"),
            return_exceptions=True,
        )
    errors = [result for result in results if isinstance(result, Exception)]
    assert [verdict(error) for error in errors] == [LOST_A_RACE]


@every_driver
@pytest.mark.parametrize("waiting", ["SET lock_timeout = '50ms'", None])
async def test_postgres_lock_that_is_not_free(
    connect: Connect, waiting: str | None, table: str, live_postgres: PostgresServer
) -> None:
    """D1."""
    async with connected(connect, live_postgres.url) as one, connected(connect, live_postgres.url) as other:
        await execute_all(one, "BEGIN", f"SELECT * FROM {table} FOR UPDATE")
        if waiting:
            await other.execute(waiting)
        lock = f"SELECT * FROM {table} FOR UPDATE" + ("" if waiting else " NOWAIT")
        error = await failing(other.execute(lock))
    assert verdict(error) == REFUSED_FOR_NOW


async def end_backend_of(connection: Any, live_postgres: PostgresServer, mark: str) -> None:
    """Terminate the server process of a connection that has this application_name."""
    async with connected(by_psycopg_async, live_postgres.url) as operator:
        for _ in range(200):
            found = f"FROM pg_stat_activity WHERE application_name = '{mark}'"
            cursor = await operator.execute(f"SELECT pg_terminate_backend(pid, 5000) {found}")
            if await cursor.fetchall() == [(True,)]:
                return
            await asyncio.sleep(0.01)
    raise AssertionError(f"no backend of {mark} was found for {connection!r}")


@every_driver
async def test_postgres_backend_terminated_while_it_works(
    connect: Connect, live_postgres: PostgresServer
) -> None:
    """G3: the connection is lost in the middle, so the progress of the statement is unknown."""
    async with connected(connect, live_postgres.url) as connection:
        await connection.execute("SET application_name = 'terminated_at_work'")
        working = asyncio.ensure_future(failing(connection.execute("SELECT pg_sleep(20)")))
        await end_backend_of(connection, live_postgres, "terminated_at_work")
        assert verdict(await working) == CUT_OFF


async def test_asyncpg_meets_the_end_of_its_connection_in_the_middle_of_a_start() -> None:
    """G3: seen 3 times in 1,200 when the server ended a connection at the moment a statement started."""
    error = asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")
    assert verdict(error) == CUT_OFF


@every_driver
async def test_postgres_backend_terminated_while_idle(
    connect: Connect, live_postgres: PostgresServer
) -> None:
    """G3: the next statements fail, first on the broken connection, then on the closed one."""
    async with connected(connect, live_postgres.url) as connection:
        await connection.execute("SET application_name = 'terminated_idle'")
        await end_backend_of(connection, live_postgres, "terminated_idle")
        found = [verdict(await failing(connection.execute("SELECT 1"))) for _ in range(3)]
    assert found[0] in (CUT_OFF, NOT_CONNECTED)
    assert found[-1] == NOT_CONNECTED


@every_driver
@pytest.mark.parametrize(
    "statements",
    [
        ["SET transaction_timeout = '50ms'", "BEGIN", "SELECT pg_sleep(20)"],
        ["SET idle_in_transaction_session_timeout = '50ms'", "BEGIN", "SELECT 1"],
    ],
)
async def test_postgres_ends_a_transaction_that_takes_too_long(
    connect: Connect, statements: list[str], live_postgres: PostgresServer
) -> None:
    """G3: retried, under each name that drivers report."""
    *before, last = statements
    async with connected(connect, live_postgres.url) as connection:
        await execute_all(connection, *before)
        if last == "SELECT 1":
            await asyncio.sleep(0.3)
        failure = classify(await failing(connection.execute(last)))
    assert failure.category in (Category.TIMEOUT, Category.NETWORK)
    assert failure.error_class is ErrorClass.RETRYABLE


@every_driver
async def test_postgres_wrong_database(connect: Connect, live_postgres: PostgresServer) -> None:
    """W5: missing configuration is final."""
    error = await failing(connect(live_postgres.at(database="no_such_database")))
    assert verdict(error) == NOT_SET_UP


@every_driver
async def test_postgres_too_many_connections(connect: Connect, live_postgres: PostgresServer) -> None:
    """D1: another connection will be free later, and the server executed nothing."""
    with psycopg.connect(live_postgres.url, autocommit=True) as operator:
        operator.execute("CREATE ROLE crowded LOGIN PASSWORD 'crowded' CONNECTION LIMIT 0")
        try:
            error = await failing(connect(live_postgres.at(user="crowded", password="crowded")))
        finally:
            operator.execute("DROP ROLE crowded")
    assert verdict(error) == NONE_LEFT


@every_driver
async def test_postgres_wrong_password(connect: Connect, live_postgres: PostgresServer) -> None:
    """W5: permission is final."""
    with psycopg.connect(live_postgres.url, autocommit=True) as operator:
        operator.execute(f"CREATE ROLE {ASKED_FOR_PASSWORD} LOGIN PASSWORD 'right'")
        try:
            error = await failing(connect(live_postgres.at(user=ASKED_FOR_PASSWORD, password="wrong")))
        finally:
            operator.execute(f"DROP ROLE {ASKED_FOR_PASSWORD}")
    assert verdict(error) == DENIED


@every_driver
async def test_postgres_out_of_reach(connect: Connect) -> None:
    """G3: a refused connection, and a host that does not exist."""
    for place in (f"{HOST}:{refused_port()}", f"{NO_SUCH_HOST}:5432"):
        error = await failing(connect(f"postgresql://postgres@{place}/postgres"))
        assert verdict(error) == NOT_CONNECTED


@every_driver
@pytest.mark.parametrize("behavior", [reset_on_accept(), close_on_accept()])
async def test_postgres_connection_that_does_not_last(
    connect: Connect, behavior: Behavior, server: MisbehavingServer
) -> None:
    """G3: asyncpg raises the error of the socket, and cannot tell whether it was still connecting."""
    server.otherwise(behavior)
    error = await failing(connect(f"postgresql://postgres@{HOST}:{server.port}/postgres"))
    assert verdict(error) in ([CUT_OFF, NOT_CONNECTED] if connect is by_asyncpg else [NOT_CONNECTED])


async def test_postgres_connect_timeout_of_asyncpg() -> None:
    """G3."""
    with full_backlog() as port:
        error = await failing(asyncpg.connect(f"postgresql://postgres@{HOST}:{port}/x", timeout=IMPATIENT))
    assert verdict(error) == TIMEOUT_MAYBE


async def test_postgres_connect_timeout_of_psycopg() -> None:
    """G3. Its shortest timeout is two seconds."""
    with full_backlog() as port:
        url = f"postgresql://postgres@{HOST}:{port}/x"
        error = await failing(psycopg.AsyncConnection.connect(url, connect_timeout=2))
    assert verdict(error) == TIMEOUT_NEVER


async def test_postgres_timeouts_of_asyncpg(live_postgres: PostgresServer) -> None:
    """G3: of a statement, and of waiting for a connection of the pool."""
    async with (
        asyncpg.create_pool(live_postgres.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        statement = await failing(connection.execute("SELECT pg_sleep(20)", timeout=IMPATIENT))
        waiting = await failing(pool.acquire(timeout=IMPATIENT))
    assert verdict(statement) == TIMEOUT_MAYBE
    assert verdict(waiting) == TIMEOUT_MAYBE


async def test_postgres_argument_of_the_wrong_type(live_postgres: PostgresServer) -> None:
    """W5."""
    async with connected(by_asyncpg, live_postgres.url) as connection:
        error = await failing(connection.fetch("SELECT $1::int", "not a number"))
    assert verdict(error) == INVALID


# --- Redis ----------------------------------------------------------------------------------------


class RedisInThread:
    """redis-py's sync client with the interface of the async one."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    async def execute_command(self, *words: str) -> object:
        return await asyncio.to_thread(self.client.execute_command, *words)

    async def aclose(self) -> None:
        self.client.close()


def redis_plain(port: int, **options: Any) -> Any:
    client = redis.Redis(host=HOST, port=port, retry=Retry(NoBackoff(), 0), **options)
    return RedisInThread(client)


def redis_async(port: int, **options: Any) -> Any:
    once = redis.asyncio.retry.Retry(NoBackoff(), 0)
    return redis.asyncio.Redis(host=HOST, port=port, retry=once, **options)


both_redis = pytest.mark.parametrize("make", [redis_plain, redis_async])
MakeRedis = Callable[..., Any]


async def redis_error(client: Any, *words: str) -> Exception:
    async with contextlib.aclosing(client):
        return await failing(client.execute_command(*words))


@pytest.fixture
def redis_keys(live_redis: RedisServer) -> Iterator[redis.Redis]:
    """A client of the live server for the test's own commands; afterwards it deletes and resets all."""
    client = redis.Redis(host=live_redis.host, port=live_redis.port)
    client.set("text", "value")
    client.xgroup_create("stream", "group", mkstream=True)
    yield client
    client.flushall()
    client.close()


@both_redis
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["LPUSH", "text", "1"], INVALID),
        (["NO_SUCH_COMMAND"], INVALID),
        (["EVALSHA", "0" * 40, "0"], INVALID),
        (["XREADGROUP", "GROUP", "none", "me", "STREAMS", "stream", ">"], INVALID),
        (["XGROUP", "CREATE", "stream", "group", "$"], CONFLICT),
        (["RESTORE", "text", "0", "nonsense"], INVALID),
    ],
)
async def test_redis_command(
    make: MakeRedis, words: list[str], expected: Verdict, redis_keys: redis.Redis, live_redis: RedisServer
) -> None:
    """D1, W5."""
    assert verdict(await redis_error(make(live_redis.port), *words)) == expected


@contextlib.contextmanager
def redis_setting(client: redis.Redis, name: str, value: str | int, usual: str | int) -> Iterator[None]:
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, usual)


@both_redis
@pytest.mark.parametrize(("setting", "value"), [("maxmemory", "1"), ("min-replicas-to-write", "1")])
async def test_redis_that_cannot_write_at_the_moment(
    make: MakeRedis, setting: str, value: str, redis_keys: redis.Redis, live_redis: RedisServer
) -> None:
    """D1: out of memory, or too few replicas."""
    with redis_setting(redis_keys, setting, value, "0"):
        error = await redis_error(make(live_redis.port), "SET", "text", "other")
    assert verdict(error) == REFUSED_FOR_NOW


@both_redis
async def test_redis_that_cannot_save(
    make: MakeRedis,
    tmp_path_factory: pytest.TempPathFactory,
    redis_keys: redis.Redis,
    live_redis: RedisServer,
) -> None:
    """D1: it rejects writes (MISCONF) while it cannot save a snapshot."""
    usual = redis_keys.config_get("dir")["dir"] or ""
    doomed = tmp_path_factory.mktemp("doomed")
    with redis_setting(redis_keys, "dir", str(doomed), usual), redis_setting(redis_keys, "save", "1 1", ""):
        doomed.rmdir()
        redis_keys.bgsave()
        while redis_keys.info("persistence")["rdb_bgsave_in_progress"]:
            await asyncio.sleep(0.01)
        error = await redis_error(make(live_redis.port), "SET", "text", "other")
    assert verdict(error) == REFUSED_FOR_NOW


@both_redis
async def test_redis_replicas(make: MakeRedis, redis_keys: redis.Redis, live_redis: RedisServer) -> None:
    """G3: after a failover the client may talk to a replica for a while."""
    redis_keys.replicaof(HOST, refused_port())
    try:
        read_only = await redis_error(make(live_redis.port), "SET", "text", "other")
        with redis_setting(redis_keys, "replica-serve-stale-data", "no", "yes"):
            cut_off = await redis_error(make(live_redis.port), "GET", "text")
    finally:
        redis_keys.replicaof("NO", "ONE")
    assert verdict(read_only) == Verdict(Category.NETWORK, ErrorClass.RETRYABLE, SEEN)
    assert verdict(cut_off) == NOT_CONNECTED


@both_redis
async def test_redis_busy_with_a_script(
    make: MakeRedis, redis_keys: redis.Redis, live_redis: RedisServer
) -> None:
    """D1."""
    with redis_setting(redis_keys, "lua-time-limit", 1, 5000):
        endless = threading.Thread(target=run_endless_script, args=(live_redis,))
        endless.start()
        try:
            client = make(live_redis.port)
            async with contextlib.aclosing(client):
                error = await until_failing(client)
        finally:
            redis_keys.script_kill()
            endless.join()
    assert verdict(error) == REFUSED_FOR_NOW


def run_endless_script(live_redis: RedisServer) -> None:
    client = redis.Redis(host=live_redis.host, port=live_redis.port)
    with contextlib.suppress(redis.ResponseError):
        client.eval("while true do end", 0)
    client.close()


async def until_failing(client: Any) -> Exception:
    for _ in range(1000):
        try:
            await client.execute_command("PING")
        except Exception as error:
            return error
        await asyncio.sleep(0.005)
    raise AssertionError("the server never was busy")


@both_redis
@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({}, ["GET", "key"]),
        ({"password": "wrong"}, ["GET", "key"]),
        ({"username": "nobody", "password": "wrong"}, ["GET", "key"]),
        ({"username": "reader", "password": "right"}, ["SET", "key", "value"]),
    ],
)
async def test_redis_access_denied(
    make: MakeRedis, login: dict[str, str], words: list[str], protected_redis: RedisServer
) -> None:
    """W5: permission is final."""
    assert verdict(await redis_error(make(protected_redis.port, **login), *words)) == DENIED


@pytest.fixture(scope="module")
def protected_redis() -> Iterator[RedisServer]:
    reader = ("--user", "reader", "on", ">right", "~*", "+get", "+hello")
    with redis_server("--requirepass", "right", *reader) as running:
        yield running


@both_redis
async def test_redis_out_of_reach(make: MakeRedis) -> None:
    """G3."""
    assert verdict(await redis_error(make(refused_port()), "GET", "key")) == NOT_CONNECTED


@both_redis
async def test_redis_connect_timeout(make: MakeRedis) -> None:
    """G3."""
    with full_backlog() as port:
        error = await redis_error(make(port, socket_connect_timeout=IMPATIENT), "GET", "key")
    assert verdict(error) == TIMEOUT_NEVER


@both_redis
async def test_redis_read_timeout(make: MakeRedis, redis_keys: redis.Redis, live_redis: RedisServer) -> None:
    """G3: the command was sent; its outcome is unknown."""
    error = await redis_error(make(live_redis.port, socket_timeout=IMPATIENT), "BLPOP", "empty", "20")
    assert verdict(error) == TIMEOUT_MAYBE


@both_redis
@pytest.mark.parametrize("behavior", [reset_on_accept(), close_on_accept()])
async def test_redis_connection_that_does_not_last(
    make: MakeRedis, behavior: Behavior, server: MisbehavingServer
) -> None:
    """G3."""
    server.otherwise(behavior)
    assert verdict(await redis_error(make(server.port), "GET", "key")) in (CUT_OFF, NOT_CONNECTED)


@both_redis
async def test_redis_too_many_clients(
    make: MakeRedis, redis_keys: redis.Redis, live_redis: RedisServer
) -> None:
    """D1."""
    with redis_setting(redis_keys, "maxclients", 1, 100):
        error = await redis_error(make(live_redis.port), "GET", "key")
    assert verdict(error) == NONE_LEFT


def test_redis_watched_key_that_changed(redis_keys: redis.Redis) -> None:
    """D1: the loser of a race may simply run again."""
    with redis_keys.pipeline() as pipeline:
        pipeline.watch("text")  # type: ignore[no-untyped-call]
        redis_keys.set("text", "changed in between")
        pipeline.multi()
        pipeline.set("text", "mine")
        with pytest.raises(redis.WatchError) as caught:
            pipeline.execute()
    assert verdict(caught.value) == LOST_A_RACE


def test_redis_lock_of_another_client(redis_keys: redis.Redis) -> None:
    """D1: a lock that another client holds will be free; a lost lock stays lost."""
    with redis_keys.lock("lock"), pytest.raises(redis.exceptions.LockError) as taken:
        redis_keys.lock("lock", blocking_timeout=0.05).__enter__()
    with pytest.raises(redis.exceptions.LockError) as lost:
        redis_keys.lock("lock").release()
    assert verdict(taken.value) == NONE_LEFT
    assert verdict(lost.value) == CONFLICT


@pytest.mark.parametrize("kind", [redis.ConnectionPool, redis.BlockingConnectionPool])
def test_redis_pool_without_a_free_connection(kind: Any, live_redis: RedisServer) -> None:
    """D1."""
    options = {"timeout": 0.05} if kind is redis.BlockingConnectionPool else {}
    pool = kind(host=live_redis.host, port=live_redis.port, max_connections=1, **options)
    taken = pool.get_connection()
    with pytest.raises(redis.ConnectionError) as caught:
        pool.get_connection()
    pool.release(taken)
    pool.disconnect()
    assert verdict(caught.value) == NONE_LEFT


# --- SQLite ---------------------------------------------------------------------------------------

BUSY = Verdict(Category.RESOURCE, ErrorClass.RETRYABLE, MAYBE)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(tmp_path / "database", isolation_level=None)) as connection:
        connection.executescript(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY);"
            "CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
            " size INTEGER CHECK (size < 10), parent REFERENCES parents);"
            "INSERT INTO rows VALUES (1, 'one', 1, NULL); PRAGMA foreign_keys = ON;"
        )
        yield connection


def sqlite_verdict(connection: sqlite3.Connection, statement: str) -> Verdict:
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement)
    return verdict(caught.value)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO rows VALUES (1, 'two', 1, NULL)", CONFLICT),
        ("INSERT INTO rows VALUES (2, 'one', 1, NULL)", CONFLICT),
        ("INSERT INTO rows VALUES (2, NULL, 1, NULL)", INVALID),
        ("INSERT INTO rows VALUES (2, 'two', 10, NULL)", INVALID),
        ("INSERT INTO rows VALUES (2, 'two', 1, 99)", INVALID),
        ("INSERT INTO rows VALUES ('no number', 'two', 1, NULL)", INVALID),
        ("SELECT * FROM no_such_table", UNKNOWN),
        ("SELEC 1", UNKNOWN),
    ],
)
def test_sqlite_statement(statement: str, expected: Verdict, database: sqlite3.Connection) -> None:
    """D1, W5: the same violation means the same as on PostgreSQL, if SQLite names it."""
    assert sqlite_verdict(database, statement) == expected


def test_sqlite_locked_by_another_connection(database: sqlite3.Connection, tmp_path: Path) -> None:
    """D1."""
    database.execute("BEGIN IMMEDIATE")
    with contextlib.closing(sqlite3.connect(tmp_path / "database", timeout=0.05)) as other:
        assert sqlite_verdict(other, "BEGIN IMMEDIATE") == BUSY


def test_sqlite_disk_full(database: sqlite3.Connection) -> None:
    """D1."""
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    statement = "INSERT INTO rows VALUES (2, hex(zeroblob(100000)), 1, NULL)"
    assert sqlite_verdict(database, statement) == BUSY


def test_sqlite_read_only(database: sqlite3.Connection, tmp_path: Path) -> None:
    """W5: permission is final."""
    address = f"file:{tmp_path / 'database'}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as reader:
        assert sqlite_verdict(reader, "DELETE FROM rows") == Verdict(
            Category.PERMISSION, ErrorClass.FINAL, SEEN
        )


def test_sqlite_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """W5: missing configuration is final."""
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(tmp_path / "no" / "such" / "directory" / "database")
    assert verdict(caught.value) == Verdict(Category.MISSING_CONFIG, ErrorClass.FINAL, NEVER)
