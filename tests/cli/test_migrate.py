"""`redrive migrate`: it prints both versions before and after, and never migrates backwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command
from tests.store.version_0_1 import create_tables

from redrive.app import Redrive
from redrive.parts import parts_of
from redrive.store.migration import conversion, migrations

pytestmark = pytest.mark.usefixtures("real_migrations")

NEWEST = migrations()[-1]
VERSIONS = "SELECT version FROM redrive.migrations ORDER BY version"


@pytest.fixture(params=["sqlite", "postgres"])
def older(request: pytest.FixtureRequest, redrive: Command) -> Command:
    """Commands on a database of version 0.1, on each kind of database."""
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")

    async def create() -> None:
        app = Redrive(log=False)
        await create_tables(parts_of(app).database)
        await app.close()

    asyncio.run(create())
    return redrive


def test_a_new_database(redrive: Command, tmp_path: Path) -> None:
    assert redrive("migrate", "--check").code == 6
    planned = redrive("migrate", "--dry-run", "-o", "json")
    assert (planned.code, planned.err) == (
        0,
        f"Would create database redrive.db at version {NEWEST.version}.\n",
    )
    assert [row["version"] for row in json.loads(planned.out)] == [each.version for each in migrations()]
    assert {row["state"] for row in json.loads(planned.out)} == {"pending"}
    assert not (tmp_path / "redrive.db").exists()

    made = redrive("migrate")
    assert made.code == 0
    assert made.out.splitlines()[0] == "16\tbaseline\tapplied"
    assert made.err == (
        f"About to create database redrive.db at version {NEWEST.version}.\n"
        f"Database redrive.db is now at version {NEWEST.version}.\n"
    )
    assert (tmp_path / "redrive.db").stat().st_mode & 0o777 == 0o600


def test_new_tables_in_postgresql(redrive: Command, on_postgres: None) -> None:
    planned = redrive("migrate", "--dry-run")
    assert planned.err.startswith("Would create the tables in database 127.0.0.1:")
    assert redrive("verify").code == 6
    for looking in (
        ("status",),
        ("dlq", "list"),
        ("key", "list", "--org", "acme"),
        ("policy", "list", "--stored"),
    ):
        ended = redrive(*looking)
        assert (ended.code, ended.out) == (3, "")
    assert "has no Redrive tables;" in redrive("status").err
    assert redrive("migrate").code == 0
    assert redrive("verify").code == 0


CONVERSION = [
    {"version": step.version, "name": step.name.replace("_", " ")}
    for step in (*conversion(), *migrations()[1:])
]


def test_a_database_of_0_1(older: Command) -> None:
    checked = older("migrate", "--check", "-o", "json")
    assert checked.code == 6
    assert json.loads(checked.out) == [{**step, "state": "pending"} for step in CONVERSION]
    assert checked.err.endswith(
        f" from version 11 to {NEWEST.version}. Stop all workers and servers of 0.1 first.\n"
    )
    assert older("migrate", "--dry-run").code == 0
    assert by_hand(VERSIONS)[-1] == (11,)

    done = older("migrate", "-o", "json")
    assert done.code == 0
    assert json.loads(done.out) == [{**step, "state": "applied"} for step in CONVERSION]
    assert "Workers wait until it is done." in done.err
    assert by_hand(VERSIONS) == [(step.version,) for step in migrations()]

    again = older("migrate", "--check", "-o", "json")
    assert (again.code, again.out) == (0, "[]\n")
    assert again.err.endswith(f" is up to date (version {NEWEST.version}).\n")
    assert older("migrate").code == 0


def test_a_database_of_0_1_with_a_worker(older: Command) -> None:
    by_hand(
        "INSERT INTO redrive.workers (id, started_at, seen_at, code_version, queues, concurrency, in_flight,"
        " state, host, process) VALUES ('w1', :now, :now, 'v1', '[]', 4, 1, 'running', 'shop-1', 7)"
    )

    refused = older("migrate")

    assert (refused.code, refused.out) == (6, "")
    assert "1 process is still working on this database of Redrive 0.1: worker w1" in refused.err
    assert "then run `redrive migrate` again" in refused.err
    assert by_hand(VERSIONS)[-1] == (11,)
    by_hand("UPDATE redrive.workers SET state = 'stopped'")
    assert older("migrate").code == 0


@pytest.mark.parametrize("arguments", [["migrate"], ["migrate", "--check"], ["migrate", "--dry-run"]])
def test_a_database_from_before_0_1_is_refused(older: Command, arguments: list[str]) -> None:
    by_hand("DELETE FROM redrive.migrations WHERE version > 9")

    refused = older(*arguments)

    assert (refused.code, refused.out) == (6, "")
    assert "the database is at version 9, from before Redrive 0.1" in refused.err
    assert by_hand(VERSIONS)[-1] == (9,)


def test_other_commands_say_that_it_is_needed(older: Command) -> None:
    ended = older("verify")
    assert (ended.code, ended.out) == (6, "")
    assert f"is at version 11, but this program needs version {NEWEST.version}" in ended.err
    assert "run `redrive migrate`" in ended.err
    assert by_hand(VERSIONS)[-1] == (11,)


@pytest.mark.parametrize(
    "arguments", [["migrate"], ["migrate", "--check"], ["migrate", "--dry-run"], ["verify"]]
)
def test_a_newer_database_is_refused(office: Command, arguments: list[str]) -> None:
    office("migrate")
    by_hand("INSERT INTO redrive.migrations VALUES (9999, 'future', 0)")
    ended = office(*arguments)
    assert (ended.code, ended.out) == (6, "")
    assert ended.err.startswith(
        "Error: the database is at version 9999, but this program supports versions up to "
    )
    assert "install the newer Redrive" in ended.err


def test_a_server_is_no_database(redrive: Command) -> None:
    for command in ("migrate", "verify", "doctor"):
        ended = redrive("--server", "http://127.0.0.1:1", command)
        assert (ended.code, ended.out) == (2, "")
        assert "this command needs the database" in ended.err
