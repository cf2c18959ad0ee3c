"""`redrive member` and `redrive org`: members, roles, passwords that are never arguments, links (W12)."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk

from redrive.app import Redrive
from redrive.identity.sessions import UserSessions

PASSWORD = "a sentence of 7 words"


def signed_in(name: str, password: str) -> bool:
    async def ask(sessions: UserSessions) -> bool:
        return await sessions.sign_in(name, password) is not None

    return asyncio.run(_with_sessions(ask))


def redeemed(token: str) -> bool:
    async def ask(sessions: UserSessions) -> bool:
        return await sessions.redeem(token) is not None

    return asyncio.run(_with_sessions(ask))


async def _with_sessions(ask: Any) -> bool:
    async with Redrive(log=False) as app:
        return bool(await ask(app.members().sessions))


def members(redrive: Command, *arguments: str) -> dict[str, tuple[str, bool]]:
    rows = json.loads(redrive("member", "list", "-o", "json", *arguments).out)
    return {row["name"]: (row["role"], row["active"]) for row in rows}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard input that holds a password."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))


def test_from_joining_to_leaving(office: Command, typed: None) -> None:
    added = office("member", "add", "Ana@Example.com", "--role", "owner", "--password")
    assert added == (0, "", "Added ana@example.com to organization 'default' as OWNER.\n")
    assert signed_in("ana@example.com", PASSWORD)
    office("member", "add", "bob", "--role", "VIEWER")
    assert members(office) == {"ana@example.com": ("OWNER", True), "bob": ("VIEWER", True)}

    changed = office("member", "change", "bob", "--role", "ORG_ADMIN", "--inactive")
    assert changed == (0, "", "Changed bob in organization 'default': ADMIN, inactive.\n")
    assert members(office)["bob"] == ("ADMIN", False)
    assert office("member", "change", "bob", "--active").code == 0

    removed = office("member", "remove", "bob", "--yes")
    assert removed == (0, "", "Removed bob from organization 'default'.\n")
    assert list(members(office)) == ["ana@example.com"]


def test_the_last_owner_stays(redrive: Command) -> None:
    redrive("member", "add", "ana", "--role", "OWNER")
    for arguments in (
        ["remove", "ana", "--yes"],
        ["change", "ana", "--role", "ADMIN"],
        ["change", "ana", "--inactive"],
    ):
        ended = redrive("member", *arguments)
        assert ended.code == 6
        assert "is the last owner of the organization 'default'" in ended.err
    assert members(redrive) == {"ana": ("OWNER", True)}


def test_another_password(redrive: Command, typed: None) -> None:
    redrive("member", "add", "ana", "--role", "VIEWER")
    assert not signed_in("ana", PASSWORD)
    assert redrive("member", "change", "ana", "--password").code == 0
    assert signed_in("ana", PASSWORD)


def test_a_password_on_a_terminal_is_asked_for_twice_and_not_seen(redrive: Command, tmp_path: Path) -> None:
    asked = (("Password:", PASSWORD), ("Repeat for confirmation:", PASSWORD))
    ended = talk(tmp_path, ["member", "add", "ana", "--role", "OWNER", "--password"], *asked)
    assert (ended.code, ended.out) == (0, "")
    assert PASSWORD not in ended.shown
    assert signed_in("ana", PASSWORD)


def test_a_password_is_no_argument(redrive: Command) -> None:
    ended = redrive("member", "add", "ana", "--role", "OWNER", f"--password={PASSWORD}")
    assert ended.code == 2
    assert PASSWORD not in ended.err


def test_a_link_signs_in_once(office: Command) -> None:
    office("member", "add", "ana", "--role", "OWNER")
    made = office("member", "link", "ana")
    address, _, token = made.out.strip().partition("#")
    assert (made.code, address) == (0, "http://127.0.0.1:8400/app/sign-in")
    assert token not in made.err
    assert redeemed(token)
    assert not redeemed(token)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (["server_url=https://redrive.example.com/"], "https://redrive.example.com/app/sign-in"),
        (["server_host=::1", "server_port=9000"], "http://[::1]:9000/app/sign-in"),
    ],
)
def test_a_link_leads_to_the_server(redrive: Command, settings: list[str], address: str) -> None:
    redrive("member", "add", "ana", "--role", "OWNER")
    given = [word for setting in settings for word in ("--set", setting)]
    row = json.loads(redrive("member", "link", "ana", "--valid", "10m", "-o", "json", *given).out)
    assert (row["name"], row["url"].partition("#")[0]) == ("ana", address)


def test_members_of_another_organization(redrive: Command) -> None:
    """I8."""
    assert redrive("org", "create", "acme", "--title", "Acme Ltd").code == 0
    redrive("member", "add", "ana", "--role", "OWNER", "--org", "acme")
    assert members(redrive) == {}
    assert members(redrive, "--org", "acme") == {"ana": ("OWNER", True)}
    assert redrive("member", "remove", "ana", "--yes").code == 3
    rows = json.loads(redrive("org", "list", "-o", "json").out)
    assert [(row["name"], row["title"]) for row in rows if row["name"] == "acme"] == [("acme", "Acme Ltd")]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["member", "add", "bob", "--role", "boss"], 2, "Error: a role must be one of VIEWER"),
        (["member", "add", "redrive", "--role", "VIEWER"], 2, "cannot be the name of a user"),
        (["member", "add", "key:ci", "--role", "VIEWER"], 2, "cannot be the name of a user"),
        (["member", "add", "ana", "--role", "VIEWER"], 6, "Error: 'ana' is already a member of 'default'"),
        (["member", "add", "bob", "--role", "VIEWER", "--password"], 2, "Error: a password must have 12 to"),
        (["member", "change", "ana"], 2, "Pass what to change"),
        (["member", "change", "bob", "--role", "VIEWER"], 3, "Error: found no member 'bob'"),
        (["member", "remove", "bob", "--yes"], 3, "Error: found no member 'bob'"),
        (["member", "remove", "ana"], 2, "Add --yes to remove 'ana' (OWNER)"),
        (["member", "link", "bob"], 3, "Error: found no member 'bob'"),
        (["member", "link", "ana", "--set", "server_port=0"], 2, "Error: with server_port 0 the address"),
        (["member", "list", "--org", "none"], 3, "Error: found no organization 'none'"),
        (["org", "create", ""], 2, "Error: "),
        (["org", "create", "default"], 6, "Error: the organization 'default' already exists"),
    ],
)
def test_mistakes(
    redrive: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("canary-7\n"))
    redrive("member", "add", "ana", "--role", "OWNER")
    ended = redrive(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert "canary-7" not in ended.err
    assert members(redrive) == {"ana": ("OWNER", True)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["member", "add", "Bob", "--role", "VIEWER", "--password"],
            "Would add 'bob' to organization 'default' as VIEWER.\n",
        ),
        (
            ["member", "change", "ana", "--role", "VIEWER"],
            "Would change member 'ana' of organization 'default'.\n",
        ),
        (
            ["member", "remove", "ana"],
            "Would remove 'ana' (OWNER) from organization 'default' (database redrive.db).\n",
        ),
        (
            ["member", "link", "ana"],
            "Would create a sign-in link for 'ana' of organization 'default'.\n",
        ),
        (["org", "create", "acme"], "Would create organization 'acme'.\n"),
    ],
)
def test_a_dry_run_changes_nothing(redrive: Command, arguments: list[str], message: str) -> None:
    redrive("member", "add", "ana", "--role", "OWNER")
    organizations = redrive("org", "list", "-o", "json").out
    assert redrive(*arguments, "--dry-run") == (0, "", message)
    assert members(redrive) == {"ana": ("OWNER", True)}
    assert redrive("org", "list", "-o", "json").out == organizations


def test_changes_are_in_the_audit_as_the_operators(redrive: Command) -> None:
    """I14."""
    redrive("member", "add", "ana", "--role", "OWNER")
    redrive("key", "create", "ci", "--role", "VIEWER")

    async def read() -> list[tuple[str, str]]:
        async with Redrive(log=False) as app:
            page = await app.failures().audit.list()
            return [(str(entry.action), entry.actor) for entry in page.entries]

    assert sorted(asyncio.run(read())) == [("key.created", "operator"), ("member.added", "operator")]


def test_of_a_server(served: Served, redrive: Command) -> None:
    served.enter("OWNER")
    added = redrive("member", "add", "Ana", "--role", "OWNER")
    assert added.err == (
        "Added ana to organization 'default' as OWNER.\n"
        "Create a sign-in link with `redrive member link ana`.\n"
    )
    redrive("member", "add", "bob", "--role", "VIEWER")
    assert redrive("member", "change", "bob", "--role", "STAFF").code == 0
    made = redrive("member", "link", "bob", "--valid", "10m")
    address, _, token = made.out.strip().partition("#")
    assert address == f"{served.url}/app/sign-in"
    assert redeemed(token)
    assert redrive("member", "remove", "bob", "--yes").code == 0
    assert members(redrive) == {"ana": ("OWNER", True)}
    assert redrive("org", "create", "acme", "--title", "Acme Ltd").code == 0
    names = [row["name"] for row in json.loads(redrive("org", "list", "-o", "json").out)]
    assert names == ["acme", "default"]


def test_a_password_is_not_sent_to_a_server(served: Served, redrive: Command, typed: None) -> None:
    served.enter("OWNER")
    redrive("member", "add", "ana", "--role", "OWNER")
    for arguments in (["add", "bob", "--role", "VIEWER", "--password"], ["change", "ana", "--password"]):
        ended = redrive("member", *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert "create a sign-in link with `redrive member link`" in ended.err
    assert members(redrive) == {"ana": ("OWNER", True)}
    served.leave()
    assert not signed_in("ana", PASSWORD)


def test_only_owners_of_a_server(served: Served, redrive: Command) -> None:
    """W12."""
    redrive("member", "add", "ana", "--role", "OWNER")
    served.enter("ADMIN")
    assert members(redrive) == {"ana": ("OWNER", True)}
    for arguments in (
        ["member", "add", "bob", "--role", "VIEWER"],
        ["member", "change", "ana", "--role", "VIEWER"],
        ["member", "remove", "ana", "--yes"],
        ["member", "link", "ana"],
        ["org", "create", "acme"],
    ):
        ended = redrive(*arguments)
        assert (ended.code, ended.out) == (5, "")


def test_organizations_are_made_at_home(redrive: Command, served: Served, shop: Shop) -> None:
    redrive("org", "create", "acme")
    assert redrive("org", "create", "other", "--org", "acme").code == 5
    served.enter(key=shop.key("OWNER", "acme"))
    assert redrive("org", "create", "other").code == 5
    assert [row["name"] for row in json.loads(redrive("org", "list", "-o", "json").out)] == ["acme"]


def test_removing_asks_on_a_terminal(redrive: Command, tmp_path: Path) -> None:
    redrive("member", "add", "ana", "--role", "OWNER")
    redrive("member", "add", "bob", "--role", "VIEWER")
    ended = talk(tmp_path, ["member", "remove", "bob"], ("[y/N]:", "n"))
    assert (
        ended.code,
        "Remove 'bob' (VIEWER) from organization 'default'? (database redrive.db)" in ended.shown,
    ) == (8, True)
    assert list(members(redrive)) == ["ana", "bob"]
