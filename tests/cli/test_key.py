"""`redrive key`: shown once on stdout, never again; revoking asks first (security baseline: API keys)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk

from redrive.app import Redrive
from redrive.policy.access import Principal

KEY = re.compile(r"rdk_[0-9a-f]{32}_[A-Za-z0-9_-]{43}\n")


def principal_of(text: str) -> Principal | None:
    """Return the caller that a key authenticates, on the database of the settings."""

    async def ask() -> Principal | None:
        async with Redrive(log=False) as app:
            return await app.members().credentials.of_key(text.strip())

    return asyncio.run(ask())


def test_from_creation_to_the_end(office: Command) -> None:
    made = office("key", "create", "ci", "--role", "admin", "--scope", "read", "--scope", "start")
    assert made.code == 0
    assert KEY.fullmatch(made.out)
    assert made.err == (
        "API key 'ci' of organization 'default', role ADMIN.\nCopy it now. It is not shown again.\n"
    )
    found = principal_of(made.out)
    assert found is not None
    assert (found.org, found.name, found.role) == ("default", "key:ci", "ADMIN")
    assert sorted(found.permissions) == ["read", "start"]

    rotated = office("key", "rotate", "ci", "--grace", "0s")
    assert (rotated.code, bool(KEY.fullmatch(rotated.out))) == (0, True)
    assert principal_of(made.out) is None
    assert principal_of(rotated.out) == found

    assert office("key", "revoke", "ci", "--yes") == (
        0,
        "",
        "Revoked API key 'ci' of organization 'default'.\n",
    )
    assert principal_of(rotated.out) is None
    [row] = json.loads(office("key", "list", "-o", "json").out)
    assert (row["name"], row["revoked_by"], row["created_by"]) == ("ci", "operator", "operator")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["revoked_at"])


def test_a_rotated_one_stays_valid_for_its_grace(redrive: Command) -> None:
    made = redrive("key", "create", "ci", "--role", "VIEWER")
    redrive("key", "rotate", "ci", "--grace", "1h")
    assert principal_of(made.out) is not None
    ended = redrive("key", "rotate", "ci", "--grace", "0")
    assert ended.code == 0
    assert principal_of(made.out) is None
    assert principal_of(ended.out) is not None


def test_of_another_organization(redrive: Command) -> None:
    """I8."""
    assert redrive("key", "create", "ci", "--role", "VIEWER", "--org", "acme").code == 3
    assert redrive("org", "create", "acme").code == 0
    made = redrive("key", "create", "ci", "--role", "VIEWER", "--org", "acme")
    found = principal_of(made.out)
    assert found is not None
    assert found.org == "acme"
    assert redrive("key", "list", "-o", "json").out == "[]\n"
    assert redrive("key", "revoke", "ci", "--yes").code == 3
    assert principal_of(made.out) == found


def test_stored_keys_cannot_be_shown_again(redrive: Command, tmp_path: Path) -> None:
    """I9."""
    secret = redrive("key", "create", "ci", "--role", "VIEWER").out.strip().split("_", 2)[2]
    shown = "".join(redrive("key", "list", "-o", output).out for output in ("json", "plain", "table"))
    assert secret not in shown
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_json_of_a_new_one(redrive: Command) -> None:
    row = json.loads(redrive("key", "create", "ci", "--role", "STAFF", "--expires", "90d", "-o", "json").out)
    assert row["key"].startswith(f"rdk_{row['id']}_")
    assert (row["role"], row["scopes"], row["last_used_at"]) == ("STAFF", None, None)
    assert row["expires_at"] > row["created_at"]


def test_a_list_as_a_table(redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    redrive("migrate")
    assert redrive("key", "list", "-o", "json").out == "[]\n"
    redrive("key", "create", "ci", "--role", "STAFF", "--scope", "read", "--scope", "note")
    heading, line = redrive("key", "list", "-o", "table").out.splitlines()
    assert heading.split("  ")[0] == "NAME"
    assert line.split()[:6] == ["ci", "STAFF", "note,read", "-", "-", "-"]
    assert redrive("key", "list").out.split("\t")[:3] == ["ci", "STAFF", "note,read"]


def test_a_long_list_is_whole(redrive: Command) -> None:
    async def make() -> None:
        async with Redrive(log=False) as app:
            members = app.members(by="ana")
            for number in range(501):
                await members.keys.create(f"key {number}", "VIEWER")

    asyncio.run(make())
    assert len(json.loads(redrive("key", "list", "-o", "json").out)) == 501


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "ci", "--role", "boss"], 2, "Error: a role must be one of VIEWER, STAFF, ADMIN, OWNER"),
        (
            ["create", "ci", "--role", "VIEWER", "--scope", "fly"],
            2,
            "Error: a scope must be one of read, plan",
        ),
        (
            ["create", "ci", "--role", "VIEWER", "--scope", "start"],
            2,
            "Error: the role VIEWER does not have start",
        ),
        (["create", "ci", "--role", "VIEWER", "--expires", "soon"], 2, "'soon' is not a duration"),
        (
            ["create", "ci", "--role", "VIEWER", "--expires", "0s"],
            2,
            "Error: Invalid value for '--expires': '0s' is out of range; use a duration from 1 min",
        ),
        (["create", "\x1b[31m", "--role", "VIEWER"], 2, "Error: the name of a key has the character"),
        (["create", "ci"], 2, "Missing option '--role'"),
        (["create", "old", "--role", "VIEWER"], 6, "Error: the key 'old' already exists"),
        (["rotate", "none"], 3, "Error: found no key 'none'"),
        (["rotate", "old", "--grace", "60d"], 2, "'60d' is out of range; use a duration from 0 s to 30 d"),
        (["revoke", "none", "--yes"], 3, "Error: found no key 'none'"),
        (["revoke", "old"], 2, "there is no terminal to ask for confirmation"),
        (["list", "--org", "none"], 3, "Error: found no organization 'none'"),
    ],
)
def test_mistakes(redrive: Command, arguments: list[str], code: int, message: str) -> None:
    redrive("key", "create", "old", "--role", "VIEWER")
    ended = redrive("key", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["create", "ci", "--role", "super_admin"],
            "Would create API key 'ci' for organization 'default' with role OWNER.\n",
        ),
        (["rotate", "old"], "Would rotate API key 'old' of organization 'default'.\n"),
        (
            ["revoke", "old"],
            "Would revoke API key 'old' (VIEWER) of organization 'default' (database redrive.db).\n",
        ),
    ],
)
def test_a_dry_run_changes_nothing(redrive: Command, arguments: list[str], message: str) -> None:
    old = redrive("key", "create", "old", "--role", "VIEWER").out
    before = redrive("key", "list", "-o", "json").out
    assert redrive("key", *arguments, "--dry-run") == (0, "", message)
    assert redrive("key", "list", "-o", "json").out == before
    assert principal_of(old) is not None


@pytest.mark.parametrize(("answer", "code"), [("n", 8), ("", 8), ("y", 0)])
def test_revoking_asks_on_a_terminal(redrive: Command, tmp_path: Path, answer: str, code: int) -> None:
    old = redrive("key", "create", "old", "--role", "VIEWER").out
    ended = talk(tmp_path, ["key", "revoke", "old"], ("[y/N]:", answer))
    assert (ended.code, ended.out) == (code, "")
    assert "Revoke API key 'old' (VIEWER) of organization 'default'? (database redrive.db)" in ended.shown
    assert (principal_of(old) is None) == (code == 0)


def test_a_new_database_is_announced(redrive: Command) -> None:
    notice = "Created database redrive.db.\n"
    assert redrive("key", "list").code == 3
    assert redrive("org", "create", "acme").err.startswith(notice)
    assert redrive("key", "list", "-o", "json") == (0, "[]\n", "")


def test_a_database_that_is_away(redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://app:canary-7@127.0.0.1:1/shop")
    ended = redrive("key", "list")
    assert ended.code == 1
    assert ended.err.startswith("Error: ")
    assert ended.err.endswith("Hint: run `redrive config` to see which database is configured, and where\n")
    assert "canary-7" not in ended.err


def test_of_a_server(served: Served, redrive: Command) -> None:
    served.enter("OWNER")
    made = redrive("key", "create", "ci", "--role", "STAFF", "--expires", "1d")
    assert made.code == 0
    assert KEY.fullmatch(made.out)
    assert made.out.strip() not in made.err
    rotated = json.loads(
        redrive("key", "rotate", "ci", "--grace", "0s", "--expires", "90d", "-o", "json").out
    )
    [first, _] = json.loads(redrive("key", "list", "-o", "json").out)
    assert (first["name"], first["expires_at"]) == ("ci", rotated["expires_at"])
    assert "key" not in first
    served.enter(key=rotated["key"])
    assert redrive("queue", "list").code == 0
    served.enter(key=made.out.strip())
    assert redrive("queue", "list").code == 4
    served.enter("OWNER")
    assert redrive("key", "revoke", "ci", "--yes").code == 0
    served.enter(key=rotated["key"])
    assert redrive("queue", "list").code == 4


@pytest.mark.parametrize("role", ["VIEWER", "ADMIN"])
def test_only_owners_of_a_server(served: Served, redrive: Command, shop: Shop, role: str) -> None:
    """W12."""
    served.enter(role)
    for arguments in (["list"], ["create", "ci", "--role", "VIEWER"], ["revoke", "ci", "--yes"]):
        ended = redrive("key", *arguments)
        assert (ended.code, ended.out) == (5, "")


def test_a_server_has_the_organization_of_its_key(served: Served, redrive: Command, shop: Shop) -> None:
    """I8."""
    redrive("org", "create", "acme")
    served.enter(key=shop.key("OWNER", "acme"))
    made = redrive("key", "create", "ci", "--role", "VIEWER")
    assert made.err.startswith("API key 'ci' of organization 'acme', role VIEWER.")
    ended = redrive("key", "list", "--org", "default")
    assert (ended.code, "Use a key of that organization" in ended.err) == (2, True)
