"""The doctor's findings about a PostgreSQL server, with real problems where possible."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.doctor.conftest import made
from tests.doctor.diagnosis import about, is_complete, only
from tests.servers import PostgresServer

from redrive.app import Redrive
from redrive.clock import SystemClock
from redrive.doctor import DoctorLimits, State, examine
from redrive.doctor.finding import DEFAULT_LIMITS
from redrive.doctor.postgres import (
    judge_connections,
    judge_durability,
    judge_leftovers,
    judge_server,
    judge_tables,
)
from redrive.errors import StoreUnavailableError
from redrive.parts import parts_of
from redrive.store.postgres_condition import Leftover, Server

SERVER = Server("18.1 (Debian)", False, 12_000_000, 5, 0, 0.0)


@contextmanager
def in_transaction(server: PostgresServer, *, keeps_rows: bool = False) -> Iterator[int]:
    """A process with an open transaction. `keeps_rows`: its snapshot keeps old rows from being cleaned up."""
    with psycopg.connect(server.url, application_name="report") as connection:
        if keeps_rows:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        yield connection.info.backend_pid


async def test_the_server_is_described(postgres_app: Redrive, live_postgres: PostgresServer) -> None:
    report = await examine(parts_of(postgres_app).database)
    with psycopg.connect(live_postgres.url) as connection:
        version = connection.info.parameter_status("server_version")
    assert only(report, "database").seen.startswith(f"PostgreSQL {version}: ")
    assert report.database == live_postgres.url.rpartition("@")[2]
    assert only(report, "clock").state is State.OK
    assert only(report, "connections").state is State.OK
    assert only(report, "backups").seen.startswith("wal_level is replica, archive_mode is off")


async def test_a_server_that_does_not_write_to_its_disk(postgres_app: Redrive) -> None:
    """I1: the server of the tests is started like this."""
    fsync, pages = about(await examine(parts_of(postgres_app).database), "durability")
    assert (fsync.state, fsync.seen) == (State.BAD, "fsync is off")
    assert (pages.state, pages.seen) == (State.WARN, "full_page_writes is off")
    assert is_complete(fsync)
    assert is_complete(pages)


async def test_a_user_whose_commits_are_not_waited_for(live_postgres: PostgresServer) -> None:
    """I1."""
    app = made(f"{live_postgres.url}?synchronous_commit=off", schema=f"test_{uuid.uuid4().hex}")
    found = {each.seen: each.state for each in about(await examine(parts_of(app).database), "durability")}
    assert found["synchronous_commit is off"] is State.BAD


async def test_a_schema_that_is_not_there_is_not_made(live_postgres: PostgresServer) -> None:
    schema = f"test_{uuid.uuid4().hex}"
    report = await examine(parts_of(made(live_postgres.url, schema=schema)).database)
    found = only(report, "schema")
    assert (found.state, found.seen) == (State.BAD, "this database has no Redrive tables")
    with psycopg.connect(live_postgres.url) as connection:
        assert not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchall()


@pytest.mark.parametrize("keeps_rows", [True, False])
async def test_a_long_transaction(
    postgres_app: Redrive, live_postgres: PostgresServer, keeps_rows: bool
) -> None:
    with in_transaction(live_postgres, keeps_rows=keeps_rows) as process:
        report = await examine(parts_of(postgres_app).database, limits=DoctorLimits(transaction_seconds=0.0))
        later = await examine(
            parts_of(postgres_app).database,
            limits=DoctorLimits(transaction_seconds=0.0, old_transaction_seconds=0.0),
        )
    found = next(each for each in about(report, "transactions") if "report" in each.seen)
    assert (found.state, "can't remove old row versions" in found.meaning) == (State.WARN, keeps_rows)
    assert f"report of user postgres, process {process}, idle in transaction" in found.seen
    assert found.command == f"psql -c 'SELECT pg_terminate_backend({process})'"
    assert State.BAD in {each.state for each in about(later, "transactions")}
    assert only(await examine(parts_of(postgres_app).database), "transactions").state is State.OK


async def test_a_user_without_the_right_to_see_other_sessions(live_postgres: PostgresServer) -> None:
    user = f"reader_{uuid.uuid4().hex}"
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN")
        try:
            with in_transaction(live_postgres):
                report = await examine(parts_of(made(live_postgres.at(user=user))).database)
        finally:
            connection.execute(f"DROP ROLE {user}")
    found = only(report, "transactions")
    assert found.state is State.UNKNOWN
    assert "can't see" in found.seen
    assert "pg_read_all_stats" in found.advice


async def test_rows_that_vacuum_does_not_remove(postgres_app: Redrive, live_postgres: PostgresServer) -> None:
    schema = parts_of(postgres_app).settings.schema
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {schema}.organizations SET (autovacuum_enabled = false)")
        for _ in range(30):
            connection.execute(f"UPDATE {schema}.organizations SET title = title || '.'")
        counted = f"SELECT pg_stat_get_dead_tuples('{schema}.organizations'::regclass) >= 30".encode()
        while connection.execute(counted).fetchone() != (True,):  # the server's statistics are late
            time.sleep(0.05)
    report = await examine(parts_of(postgres_app).database, limits=DoctorLimits(dead_rows=30))
    found = only(report, "tables")
    assert found.state is State.BAD
    assert found.seen.startswith(f"{schema}.organizations: ")
    assert found.seen.endswith("dead row versions, never vacuumed; autovacuum is off for this table")
    assert found.command == f"psql -c 'VACUUM (ANALYZE) {schema}.organizations'"


async def test_an_unused_replication_slot(postgres_app: Redrive, live_postgres: PostgresServer) -> None:
    name = f"slot_{uuid.uuid4().hex}"
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
        try:
            found = about(await examine(parts_of(postgres_app).database), "replication")
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
    assert State.WARN in {each.state for each in found if name in each.seen}


async def test_hardly_any_connection_left(postgres_app: Redrive) -> None:
    found = only(
        await examine(parts_of(postgres_app).database, limits=DoctorLimits(connections=0.0)), "connections"
    )
    assert found.state is State.WARN
    assert found.seen.endswith(" of 57 in use")


@pytest.mark.parametrize(("ahead", "state"), [(0.0, "ok"), (5.0, "warn"), (-300.0, "bad")])
async def test_clocks_that_differ(postgres_app: Redrive, ahead: float, state: str) -> None:
    class Shifted(SystemClock):
        @staticmethod
        def now() -> float:
            return SystemClock.now() + ahead

    found = only(await examine(parts_of(postgres_app).database, clock=Shifted()), "clock")
    assert found.state == state
    if ahead:
        assert ("behind" if ahead > 0 else "ahead of") in found.seen


async def test_a_server_that_is_away() -> None:
    with pytest.raises(StoreUnavailableError):
        await examine(parts_of(made("postgresql://app:canary-7@127.0.0.1:1/shop")).database)


# Findings that the server of the tests cannot have


def test_a_standby() -> None:
    found = judge_server("host/shop", SERVER._replace(in_recovery=True))
    assert found.state is State.BAD
    assert found.seen == "PostgreSQL 18.1: host/shop, 12 MB; it is a standby"


def test_a_server_that_keeps_everything() -> None:
    settings = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "archive_mode": "on"}
    durable, backups = judge_durability({**settings, "wal_level": "replica"})
    assert (durable.state, backups.state) == (State.OK, State.OK)
    assert durable.seen == "fsync is on, synchronous_commit is on, full_page_writes is on"
    assert backups.seen.endswith("the server archives its log")


def test_a_prepared_transaction_that_was_forgotten() -> None:
    [found] = judge_leftovers([Leftover("prepared transaction", "it's", 7200.0)])
    assert found.state is State.BAD
    assert found.command == """psql -c 'ROLLBACK PREPARED '"'"'it'"'"''"'"'s'"'"''"""


def test_a_server_without_autovacuum() -> None:
    [found] = judge_tables([], {"autovacuum": "off"}, DEFAULT_LIMITS)
    assert (found.state, found.seen) == (State.BAD, "autovacuum is off on this server")


def test_no_connection_left() -> None:
    settings = {"max_connections": "8", "superuser_reserved_connections": "3"}
    assert judge_connections(SERVER, settings, DEFAULT_LIMITS).state is State.BAD
    assert judge_connections(SERVER, {}, DEFAULT_LIMITS).state is State.UNKNOWN
