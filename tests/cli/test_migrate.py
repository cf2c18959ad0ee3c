"""`redrive migrate`: from which version to which, said before and after, and never backwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command

from redrive.store.migration import migrations

pytestmark = pytest.mark.usefixtures("real_migrations")

NEWEST = migrations()[-1]
MOVED_COLUMNS = ("stack", "public_message", "explanation", "config", "policy")
"""What the newest migration stores elsewhere."""
VERSIONS = "SELECT version FROM redrive.migrations ORDER BY version"


@pytest.fixture
def older(office: Command) -> Command:
    """A database as the version before had it: with the columns that the last migration moves."""
    assert office("migrate").code == 0
    by_hand("DROP TABLE redrive.dead_letter_settings")
    by_hand("ALTER TABLE redrive.dead_letters DROP COLUMN settings")
    for name in MOVED_COLUMNS:
        by_hand(f"ALTER TABLE redrive.dead_letters ADD COLUMN {name} text NOT NULL DEFAULT ''")
    by_hand("DELETE FROM redrive.migrations WHERE version = :version", version=NEWEST.version)
    return office


def test_a_new_database(redrive: Command, tmp_path: Path) -> None:
    assert redrive("migrate", "--check").code == 6
    planned = redrive("migrate", "--dry-run", "-o", "json")
    assert (planned.code, planned.err) == (
        0,
        f"Would make the database redrive.db, at version {NEWEST.version}.\n",
    )
    assert [row["version"] for row in json.loads(planned.out)] == [each.version for each in migrations()]
    assert {row["state"] for row in json.loads(planned.out)} == {"pending"}
    assert not (tmp_path / "redrive.db").exists()

    made = redrive("migrate")
    assert made.code == 0
    assert made.out.splitlines()[0] == "1\truns\tapplied"
    assert made.err == (
        f"Going to make the database redrive.db, at version {NEWEST.version}.\n"
        f"The database redrive.db is now at version {NEWEST.version}.\n"
    )
    assert (tmp_path / "redrive.db").stat().st_mode & 0o777 == 0o600


def test_new_tables_in_postgresql(redrive: Command, on_postgres: None) -> None:
    planned = redrive("migrate", "--dry-run")
    assert planned.err.startswith("Would make the tables of the database 127.0.0.1:")
    assert redrive("verify").code == 6
    for looking in (
        ("status",),
        ("dlq", "list"),
        ("key", "list", "--org", "acme"),
        ("policy", "list", "--stored"),
    ):
        ended = redrive(*looking)
        assert (ended.code, ended.out) == (3, "")
    assert "has no tables of Redrive;" in redrive("status").err
    assert redrive("migrate").code == 0
    assert redrive("verify").code == 0


def test_an_older_database(older: Command) -> None:
    before = NEWEST.version - 1
    checked = older("migrate", "--check")
    assert (checked.code, checked.out) == (6, f"{NEWEST.version}\t{NEWEST.name.replace('_', ' ')}\tpending\n")
    assert checked.err.endswith(f" from version {before} to {NEWEST.version}.\n")
    assert older("migrate", "--dry-run").code == 0
    assert by_hand(VERSIONS)[-1] == (before,)

    done = older("migrate", "-o", "json")
    assert done.code == 0
    assert json.loads(done.out) == [
        {"version": NEWEST.version, "name": NEWEST.name.replace("_", " "), "state": "applied"}
    ]
    assert "Work on it waits until that is done." in done.err
    assert by_hand(VERSIONS)[-1] == (NEWEST.version,)

    again = older("migrate", "--check", "-o", "json")
    assert (again.code, again.out) == (0, "[]\n")
    assert again.err.endswith(f" is up to date (version {NEWEST.version}).\n")
    assert older("migrate").code == 0


def test_other_commands_say_that_it_is_needed(older: Command) -> None:
    ended = older("verify")
    assert (ended.code, ended.out) == (6, "")
    assert f"is at version {NEWEST.version - 1}, this program needs {NEWEST.version}" in ended.err
    assert "run `redrive migrate`" in ended.err
    assert by_hand(VERSIONS)[-1] == (NEWEST.version - 1,)


@pytest.mark.parametrize(
    "arguments", [["migrate"], ["migrate", "--check"], ["migrate", "--dry-run"], ["verify"]]
)
def test_a_newer_database_is_refused(office: Command, arguments: list[str]) -> None:
    office("migrate")
    by_hand("INSERT INTO redrive.migrations VALUES (9999, 'future', 0)")
    ended = office(*arguments)
    assert (ended.code, ended.out) == (6, "")
    assert ended.err.startswith("Error: the database is at version 9999, this program knows up to ")
    assert "install the newer Redrive" in ended.err


def test_a_server_is_no_database(redrive: Command) -> None:
    for command in ("migrate", "verify", "doctor"):
        ended = redrive("--server", "http://127.0.0.1:1", command)
        assert (ended.code, ended.out) == (2, "")
        assert "this command looks at the database itself" in ended.err
